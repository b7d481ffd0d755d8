//! Groups in progress when a communicator ends.

use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{Mark, Sum};

use super::common::{Comm, Dev, SOON, connect, device, pair, seats, watched};

/// Marks do not check communicators: they are reached when the stream proceeds.
fn goes_on(mark: &Mark<Dev>) -> bool {
    let until = Instant::now() + SOON;
    while !mark.is_reached().expect("no error") {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A communicator whose other rank is gone without its knowledge.
fn left_alone() -> Comm {
    let [a, b] = seats();
    let soon = || Instant::now() + SOON;
    let a = a.start(device(0)).expect("start");
    let b = b.start(device(1)).expect("start");
    let a = a.ready().wait_until(soon()).expect("ready");
    drop(b.ready().wait_until(soon()).expect("ready"));
    a
}

#[test]
fn a_group_of_collectives_that_breaks_while_it_is_posted_is_over() {
    watched(|| {
        let mut comm = left_alone();
        let mut x = [(); 3].map(|()| comm.device().zeros::<f32>(4).expect("memory"));
        let group = comm.group(|g| x.iter_mut().try_for_each(|x| g.all_reduce_in_place(x, Sum)));
        group.expect("enqueued");
        let mark = comm.stream().mark().expect("mark");
        assert!(goes_on(&mark), "the stream waits for what was never posted");
    });
}

#[test]
fn a_group_of_transfers_that_breaks_while_it_is_posted_is_over() {
    watched(|| {
        let mut comm = left_alone();
        let x = comm.device().zeros::<f32>(4).expect("memory");
        let mut y = comm.device().zeros::<f32>(4).expect("memory");
        let group = comm.group(|g| {
            g.send(&x, 1)?;
            g.recv(&mut y, 1)?;
            g.send(&x, 1)
        });
        group.expect("enqueued");
        let mark = comm.stream().mark().expect("mark");
        assert!(goes_on(&mark), "the stream waits for what was never posted");
    });
}

#[test]
fn streams_go_on_when_every_rank_aborts_while_data_moves() {
    let abort = |seat| {
        let comm = connect(seat);
        let mut x = comm.device().zeros::<f32>(1 << 22).expect("memory");
        comm.barrier().expect("both are there");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        let mark = comm.stream().mark().expect("mark");
        comm.barrier().expect("both have");
        drop(comm.abort());
        assert!(goes_on(&mark), "the stream was forgotten");
    };
    pair(abort, abort);
}
