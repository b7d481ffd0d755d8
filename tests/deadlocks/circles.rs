//! Cycles among enqueued operations.

use typed_nccl::{Error, Sum, tag};

use super::common::{all_called, ranks, tell};

tag!(All);

#[test]
fn two_ranks_that_send_first() {
    let first = line!();
    let outcomes = all_called(2, |comm| {
        let peer = comm.ring(1);
        let x = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut y = comm.device().zeros::<f32>(4)?;
        comm.send(&x, peer)?; // first + 5
        comm.recv(&mut y, peer)?; // first + 6
        y.to_vec()
    });
    let (send, recv) = (first + 5, first + 6);
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 and rank 1 wait for each other\n  \
             #:{send}: rank 0 sends 4 f32 to rank 1 and waits until rank 1 receives (#:{recv})\n  \
             #:{recv}: rank 1 receives 4 f32 from rank 0 only after #:{send} (on one stream)\n  \
             #:{send}: rank 1 sends 4 f32 to rank 0 and waits until rank 0 receives (#:{recv})\n  \
             #:{recv}: rank 0 receives 4 f32 from rank 1 only after #:{send} (on one stream)\n\
             help: put what the ranks send each other and receive into one group, at both ends: \
             `comm.group(|g| ..)`"
        ),
    );
}

#[test]
fn a_ring_of_four_that_sends_first_on_two_streams() {
    let first = line!();
    let outcomes = all_called(4, |comm| {
        let (left, right) = (comm.ring(-1), comm.ring(1));
        let (x, other) = (comm.device().from_slice(&[1_u32; 2])?, comm.device().stream()?);
        let mut y = comm.device().zeros::<u32>(2)?;
        comm.send(&x, right)?; // first + 5
        comm.on(&other).recv(&mut y, left)?; // first + 6
        comm.finish()
    });
    let (send, recv) = (first + 5, first + 6);
    let why = "operations of one communicator run in order, on whatever stream";
    let rank = |rank: usize| {
        let peer = (rank + 1) % 4;
        format!(
            "\n  #:{send}: rank {rank} sends 2 u32 to rank {peer} and waits until rank {peer} \
             receives (#:{recv})\n  #:{recv}: rank {peer} receives 2 u32 from rank {rank} only \
             after #:{send} ({why})"
        )
    };
    let story: String = (0..4).map(rank).collect();
    tell(
        &outcomes,
        file!(),
        &format!(
            "4 ranks wait for one another in a circle{story}\n\
             help: put what the ranks send each other and receive into one group, at both ends: \
             `comm.group(|g| ..)`"
        ),
    );
}

#[test]
fn two_communicators_in_opposite_orders() {
    let first = line!();
    let outcomes = all_called(2, |mut comm| {
        let all = comm.split::<All>(0, 0)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut y = comm.device().from_slice(&[1.0_f32; 8])?;
        let stream = comm.stream();
        if comm.rank().index() == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?; // first + 7
            all.on(stream).all_reduce_in_place(&mut y, Sum)?; // first + 8
        } else {
            all.on(stream).all_reduce_in_place(&mut y, Sum)?; // first + 10
            comm.all_reduce_in_place(&mut x, Sum)?; // first + 11
        }
        let outcome = y.to_vec();
        let also = all.barrier().expect_err("both communicators are over");
        assert!(matches!(also, Error::Deadlock(_)), "{also}");
        outcome
    });
    let (a0, b0, b1, a1) = (first + 7, first + 8, first + 10, first + 11);
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 and rank 1 wait for each other\n  \
             #:{a0}: rank 0 calls all_reduce of 4 f32 and waits until rank 1 does too (#:{a1})\n  \
             #:{a1}: rank 1 calls all_reduce of 4 f32 only after #:{b1} (on one stream)\n  \
             #:{b1}: rank 1 calls all_reduce of 8 f32 and waits until rank 0 does too (#:{b0})\n  \
             #:{b0}: rank 0 calls all_reduce of 8 f32 only after #:{a0} (on one stream)\n\
             help: use the communicators in one order on all ranks"
        ),
    );
}

#[test]
fn a_wait_and_a_collective_in_opposite_orders_on_two_streams() {
    let first = line!();
    let outcomes = all_called(2, |mut comm| {
        let _window = comm.window::<f32>(4)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        let other = comm.device().stream()?;
        if comm.rank().index() == 0 {
            comm.wait_signal(1)?; // first + 6
            comm.on(&other).all_reduce_in_place(&mut x, Sum)?; // first + 7
        } else {
            comm.on(&other).all_reduce_in_place(&mut x, Sum)?; // first + 9
            comm.signal(0)?; // first + 10
        }
        comm.sync(comm.stream())
    });
    let (wait, r0, r1, signal) = (first + 6, first + 7, first + 9, first + 10);
    let why = "operations of one communicator run in order, on whatever stream";
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 and rank 1 wait for each other\n  \
             #:{wait}: rank 0 waits for a signal from rank 1 and waits until rank 1 raises it \
             (#:{signal})\n  \
             #:{signal}: rank 1 signals rank 0 only after #:{r1} ({why})\n  \
             #:{r1}: rank 1 calls all_reduce of 4 f32 and waits until rank 0 does too (#:{r0})\n  \
             #:{r0}: rank 0 calls all_reduce of 4 f32 only after #:{wait} ({why})\n\
             help: change the order on one of the ranks, so that what another one waits for comes \
             first"
        ),
    );
}

#[test]
fn a_wait_for_the_own_signal_that_comes_later() {
    let first = line!();
    let outcomes = ranks(1, |mut comm| {
        let _window = comm.window::<f32>(4)?;
        comm.wait_signal(0)?; // first + 3
        comm.signal(0)?; // first + 4
        comm.finish()
    });
    let (wait, signal) = (first + 3, first + 4);
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 waits for itself\n  \
             #:{wait}: rank 0 waits for a signal from rank 0 and waits until rank 0 raises it \
             (#:{signal})\n  \
             #:{signal}: rank 0 signals rank 0 only after #:{wait} (on one stream)\n\
             help: change the order on one of the ranks, so that what another one waits for comes \
             first"
        ),
    );
}

#[test]
fn a_collective_and_a_receive() {
    let first = line!();
    let outcomes = ranks(2, |comm| {
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        if comm.rank().index() == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?; // first + 4
        } else {
            comm.recv(&mut x, 0)?; // first + 6
        }
        x.to_vec()
    });
    let (reduce, recv) = (first + 4, first + 6);
    tell(
        &outcomes,
        file!(),
        &format!(
            "rank 0 and rank 1 wait for each other\n  \
             #:{reduce}: rank 0 calls all_reduce of 4 f32 and waits until rank 1 does too, which \
             it has not called\n  \
             #:{recv}: rank 1 receives 4 f32 from rank 0 and waits until rank 0 sends, which it \
             has not called\n\
             help: all ranks must make the same calls in the same order"
        ),
    );
}

#[test]
fn who_is_not_in_the_circle_is_told_who_is() {
    let outcomes = ranks(3, |comm| {
        let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
        if comm.rank().index() < 2 {
            let peer = 1 - comm.rank().index();
            comm.send(&x, peer)?;
            comm.recv(&mut x, peer)?;
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        x.to_vec()
    });
    for outcome in &outcomes[..2] {
        assert!(matches!(outcome, Err(Error::Deadlock(_))), "{outcome:?}");
    }
    match &outcomes[2] {
        Err(Error::PeerFailed(failed)) => {
            assert_eq!(failed.lost.len(), 2);
            assert!(failed.why.starts_with("rank 0 and rank 1 wait for each other"), "{failed}");
        }
        other => panic!("not told: {other:?}"),
    }
}
