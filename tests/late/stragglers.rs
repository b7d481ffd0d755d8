//! Which ranks are late, by how much, and the reaction.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use typed_nccl::{
    Change, CommConfig, Communicator, Device, Error, Late, Result, Stragglers, Sum, World,
};

use super::ranks;

const DEADLINE: Duration = Duration::from_secs(30);
/// Longer than the difference between ranks that do the same.
const SHORT: Duration = Duration::from_millis(200);

fn config(stragglers: Stragglers) -> impl Fn(usize) -> CommConfig {
    move |_| CommConfig::builder().deadline(DEADLINE).stragglers(stragglers).build()
}

fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    assert_eq!(x.to_vec()?, [comm.size() as u64]);
    Ok(())
}

/// Polls until a rank is late.
fn late<W: World>(comm: &Communicator<W>) -> Result<Vec<Late>> {
    loop {
        let standing = comm.health()?;
        if !standing.late().is_empty() {
            return Ok(standing.late().to_vec());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_rank_that_sleeps_is_named_with_what_it_lacks() {
    let (called, found) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(3)));
    ranks(3, config(Stragglers::Wait), move |comm| {
        adds_up(&comm)?;
        comm.barrier()?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        if comm.rank().index() != 2 {
            (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
            called.wait();
            let late = late(&comm)?;
            assert_eq!(late.iter().map(|late| late.rank.index()).collect::<Vec<_>>(), [2]);
            assert_eq!(late[0].operations, 3);
            assert!(late[0].since.elapsed() >= Duration::from_millis(100));
            let text = comm.health()?.to_string();
            assert!(text.starts_with("rank 2 is late by 3 operations, for "), "{text}");
            found.wait();
        } else {
            // It does not report the others as late.
            std::thread::sleep(Duration::from_millis(300));
            assert!(comm.health()?.late().is_empty());
            found.wait();
            (0..3).try_for_each(|_| comm.all_reduce_in_place(&mut x, Sum))?;
        }
        comm.sync(comm.stream())?;
        // It has arrived.
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(comm.health()?.to_string(), "nobody is late");
        comm.barrier()?;
        comm.finish()
    });
}

/// Transfers count between their two ranks only; a rank that is ahead in something is not late.
#[test]
fn a_transfer_concerns_its_two_ranks() {
    let found = Arc::new(Barrier::new(3));
    ranks(3, config(Stragglers::Report(SHORT)), move |comm| {
        let mut x = comm.device().from_slice(&[1_u64])?;
        match comm.rank().index() {
            0 => {
                comm.send(&x, 1)?;
                comm.send(&x, 1)?;
                let late = late(&comm)?;
                assert_eq!((late.len(), late[0].rank.index(), late[0].operations), (1, 1, 2));
                found.wait();
            }
            1 => {
                found.wait();
                comm.recv(&mut x, 0)?;
                comm.recv(&mut x, 0)?;
            }
            _ => {
                // Another order than rank 0's, which has not reached this one.
                let mut y = comm.device().from_slice(&[1_u64])?;
                comm.all_reduce_in_place(&mut y, Sum)?;
                assert_eq!(late(&comm)?.len(), 2);
                found.wait();
                comm.barrier()?;
                return comm.finish();
            }
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.barrier()?;
        comm.finish()
    });
}

#[test]
fn who_calls_something_else_first_is_not_late() {
    ranks(2, config(Stragglers::Wait), |comm| {
        let mut x = comm.device().from_slice(&[1_u64])?;
        // Each has something that the other lacks: rank 1 waits in the barrier meanwhile.
        if comm.rank().index() == 0 {
            comm.all_reduce_in_place(&mut x, Sum)?;
            // Until rank 1 calls it, that rank may be late.
            let mut in_a_row = 0;
            while in_a_row < 30 {
                std::thread::sleep(Duration::from_millis(10));
                in_a_row = if comm.health()?.late().is_empty() { in_a_row + 1 } else { 0 };
            }
            comm.barrier()?;
        } else {
            comm.barrier()?;
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
        comm.sync(comm.stream())?;
        comm.finish()
    });
}

/// A watch that forwards reports of late ranks.
fn told() -> (impl Fn(Stragglers) -> CommConfig, Receiver<Late>) {
    let (tell, told) = channel();
    let config = move |stragglers| {
        let tell: Sender<Late> = tell.clone();
        let config = CommConfig::builder().deadline(DEADLINE).stragglers(stragglers);
        let watch = move |change: &Change| {
            if let Change::Late(late) = change {
                tell.send(*late).expect("it listens");
            }
        };
        config.watch(watch).build()
    };
    (config, told)
}

#[test]
fn it_is_told_once_and_again_when_it_is_late_again() {
    let (config, told) = told();
    let (told, both) = (Mutex::new(told), Barrier::new(2));
    let report = move |rank| match rank {
        0 => config(Stragglers::Report(SHORT)),
        _ => CommConfig::builder().deadline(DEADLINE).build(),
    };
    ranks(2, report, move |comm| {
        // In an exchange, and in a wait for work.
        for turn in 0..2 {
            if comm.rank().index() == 1 {
                let told = told.lock().expect("nobody panics");
                let late = told.recv_timeout(DEADLINE).expect("the other one waits");
                assert_eq!((late.rank.index(), late.operations), (1, 1), "turn {turn}");
                std::thread::sleep(SHORT);
            }
            match turn {
                0 => comm.barrier()?,
                _ => adds_up(&comm)?,
            }
        }
        if comm.rank().index() == 1 {
            let told = told.lock().expect("nobody panics").try_recv();
            assert!(told.is_err(), "each is told once");
        }
        // Another report may follow while rank 0 waits in `finish`.
        both.wait();
        comm.finish()
    });
}

/// The waits of [`Work`](typed_nccl::Work) follow the policy too.
#[test]
fn waits_with_a_limit_and_tasks_tell_who_is_late() {
    let (config, told) = told();
    let told = Mutex::new(told);
    let report = move |rank| match rank {
        0 => config(Stragglers::Report(SHORT)),
        _ => CommConfig::builder().deadline(DEADLINE).build(),
    };
    ranks(2, report, move |comm| {
        for turn in 0..2 {
            let mut x = comm.device().from_slice(&[1_u64])?;
            if comm.rank().index() == 1 {
                let told = told.lock().expect("nobody panics");
                let late = told.recv_timeout(DEADLINE).expect("the other one waits");
                assert_eq!((late.rank.index(), late.operations), (1, 1), "turn {turn}");
            }
            comm.all_reduce_in_place(&mut x, Sum)?;
            let work = comm.submitted()?;
            match turn {
                0 => assert!(work.wait_within(DEADLINE)?),
                _ => tokio::runtime::Builder::new_current_thread()
                    .build()
                    .expect("a runtime")
                    .block_on(work)?,
            }
            comm.barrier()?;
        }
        comm.finish()
    });
}

#[test]
fn one_that_is_left_out_is_excluded_and_the_others_go_on() {
    let over = Arc::new(Barrier::new(4));
    // One of the four leaves others out, and informs the rest.
    let policy = |rank| match rank {
        0 => config(Stragglers::LeaveOut(Duration::from_secs(5)))(0),
        _ => config(Stragglers::Wait)(rank),
    };
    ranks(4, policy, move |mut comm| {
        adds_up(&comm)?;
        comm.barrier()?;
        if comm.rank().index() == 2 {
            over.wait();
            let error = adds_up(&comm).expect_err("the others went on");
            assert!(error.is_peer_failure(), "{error}");
            let error = comm.recover().expect_err("the others went on");
            assert!(matches!(error, Error::Excluded(_)), "{error}");
            assert!(error.to_string().contains("rank 2 is late by 1 operation, for "), "{error}");
            comm.abort();
            return Ok(());
        }
        let error = adds_up(&comm).expect_err("one is missing");
        let text = error.to_string();
        assert!(text.contains("rank 2 is late by 1 operation, for "), "{text}");
        if comm.rank().index() == 0 {
            let Error::PeerFailed(failed) = &error else { panic!("{error}") };
            assert_eq!(failed.lost.iter().map(|rank| rank.index()).collect::<Vec<_>>(), [2]);
        }
        let recovery = comm.recover()?;
        assert_eq!((comm.size(), recovery.lost.len()), (3, 1));
        let why = &recovery.lost[0].why;
        assert!(why.contains("rank 0 left it out") && why.contains("rank 2 is late"), "{why}");
        adds_up(&comm)?;
        over.wait();
        comm.finish()
    });
}
