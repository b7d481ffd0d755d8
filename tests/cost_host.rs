//! The host backend allocates nothing for an operation once its lists have grown, on any thread.
//! This covers one-sided operations and groups of transfers that find their ranks ready. Completed
//! work leaves nothing behind.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::Duration;

use typed_nccl::{Buffer, Communicator, Device, Host, Result, Sum, spmd};

use crate::counting::{by_all_threads, live};
use crate::own_process::inside;

const WARM_UP: usize = 2000;
const ROUNDS: usize = 200;

/// The number of allocations by all threads, and the bytes they keep, while two ranks play `ROUNDS`
/// rounds together, after `WARM_UP` rounds. A round begins when the other rank's streams are empty,
/// and contains no wait of the library's.
fn allocations<D: Device>(
    comm: &mut Communicator<D>,
    both: &Barrier,
    mut round: impl FnMut(&mut Communicator<D>) -> Result<()>,
) -> Result<(u64, isize)> {
    let mut rounds = |count| -> Result<()> {
        for _ in 0..count {
            round(comm)?;
            let mark = comm.stream().mark()?;
            while !mark.is_reached()? {
                std::thread::yield_now();
            }
            both.wait();
        }
        Ok(())
    };
    rounds(WARM_UP)?;
    let before = (by_all_threads(), live());
    both.wait();
    rounds(ROUNDS)?;
    // Both ranks have ended their last round, and neither proceeds until both have measured.
    let found = (by_all_threads() - before.0, live() - before.1);
    both.wait();
    comm.sync(comm.stream())?;
    Ok(found)
}

/// The bytes that `body` leaves allocated when it runs for the second time.
fn left_behind(body: impl Fn() -> Result<()>) -> Result<isize> {
    body()?;
    let before = live();
    body()?;
    Ok(live() - before)
}

/// Two calls that both ranks refuse while the previous call waits in a queue.
fn refuse_ahead<D: Device>(comm: &Communicator<D>, both: &Barrier) -> Result<()> {
    let mut x = comm.device().zeros::<u32>(4)?;
    let refuse = |x: &mut Buffer<u32, D>| {
        let refused = comm.all_reduce_in_place(&mut x.slice_mut(3..5), Sum);
        assert!(refused.is_err_and(|error| error.is_refusal()));
    };
    let (gate, wait) = channel::<()>();
    comm.stream().launch(&mut x, move |_, _| assert!(wait.recv().is_err()))?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    refuse(&mut x);
    both.wait();
    let first = comm.rank().index() == 0;
    if first {
        drop(gate);
        // By now, or soon, its part of the first call waits for the other rank's.
        std::thread::sleep(Duration::from_millis(20));
        both.wait();
        both.wait();
        refuse(&mut x);
    } else {
        both.wait();
        refuse(&mut x);
        drop(gate);
        both.wait();
    }
    comm.sync(comm.stream())
}

/// A single test, because it counts all threads.
#[test]
fn operations_allocate_nothing_and_leave_nothing_behind() -> Result<()> {
    if !inside("operations_allocate_nothing_and_leave_nothing_behind") {
        return Ok(());
    }
    // The order check allocates clocks. SAFETY: this is the only test, and the library has no
    // thread yet that could read the environment.
    unsafe { std::env::set_var("TYPED_NCCL_CHECK", "off") };
    let both = Barrier::new(2);
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let (source, target) = (comm.window::<u32>(64)?, comm.window::<u32>(64)?);
        let put = |comm: &mut Communicator<_>| {
            comm.put_signal(source.slice(0..32), peer, target.at(32))?;
            comm.wait_signal(peer)
        };
        assert_eq!(allocations(&mut comm, &both, put)?, (0, 0), "put_signal and wait_signal");

        let x = comm.device().zeros::<u32>(64)?;
        let mut y = comm.device().zeros::<u32>(64)?;
        let exchange = |comm: &mut Communicator<_>| {
            comm.group(|g| {
                g.send(&x, peer)?;
                g.recv(&mut y, peer)
            })
        };
        assert_eq!(allocations(&mut comm, &both, exchange)?, (0, 0), "a group of transfers");

        refuse_ahead(&comm, &both)?;
        let mut sum = comm.device().zeros::<u32>(4)?;
        let reduce = |comm: &mut Communicator<_>| comm.all_reduce_in_place(&mut sum, Sum);
        let (_, left) = allocations(&mut comm, &both, reduce)?;
        assert!(left < 4000, "{ROUNDS} collectives after refused ones keep {left} bytes");
        comm.finish()
    })?;

    let device = Host::any(0)?;
    let x = device.from_slice(&[1_u32; 4])?;
    let left = left_behind(|| {
        for _ in 0..1000 {
            let stream = device.stream()?;
            stream.launch(&x, |_, ()| ())?;
            stream.sync()?;
        }
        Ok(())
    })?;
    assert!(left < 10_000, "streams that read a buffer and went leave {left} bytes");

    Ok(())
}
