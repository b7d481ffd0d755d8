//! Awaited communicators, without a runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use static_assertions::assert_impl_all;
use typed_nccl::{
    AnyDevice, Becoming, CommConfig, Communicator, Error, Host, Initializing, Result, Seat, Sum,
};

type Device = Host<AnyDevice>;

assert_impl_all!(Becoming<Device>: Send, Unpin, Future<Output = Result<Communicator<Device>>>);

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Longer means a hang.
const LIMIT: Duration = Duration::from_secs(30);

/// An executor.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let started = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(LIMIT);
        assert!(started.elapsed() < LIMIT, "nobody has woken it");
    }
}

/// Joins all futures, on one thread.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match Pin::new(future).poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => {}
                }
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

fn start(seat: Seat, deadline: Duration) -> Communicator<Device, Initializing> {
    let device = Host::any(seat.rank().index() as u32).expect("a device");
    let config = CommConfig::builder().deadline(deadline).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    comm.start().expect("it starts")
}

fn adds_up(comm: Communicator<Device>, size: u64) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [size]);
    comm.finish()
}

#[test]
fn ranks_of_two_threads_await_each_other() {
    thread::scope(|scope| {
        for seat in Seat::local(2) {
            scope.spawn(move || {
                let late = Duration::from_millis(5 * seat.rank().index() as u64);
                thread::sleep(late);
                let body = async { adds_up(start(seat, LIMIT).ready().await?, 2) };
                block_on(body).expect("both come");
            });
        }
    });
}

#[test]
fn several_ranks_of_one_thread_become_ready() {
    let starting = Seat::local(3).into_iter().map(|seat| start(seat, LIMIT).ready()).collect();
    let comms = block_on(all::<Becoming<Device>>(starting));
    thread::scope(|scope| {
        for comm in comms {
            let comm = comm.expect("all have come");
            scope.spawn(|| adds_up(comm, 3).expect("all are here"));
        }
    });
}

#[test]
fn one_that_is_dropped_ends_what_it_started() {
    let mut seats = Seat::local(2).into_iter();
    let (first, second) = (seats.next().expect("two"), seats.next().expect("two"));
    let (kept, dropped) = (start(first, LIMIT).ready(), start(second, LIMIT).ready());
    drop(dropped);
    let error = block_on(kept).map(drop).expect_err("rank 1 is gone");
    assert!(matches!(&error, Error::PeerFailed(failed) if failed.lost[0].index() == 1), "{error}");
}

#[test]
fn the_deadline_counts_from_when_it_is_asked_for() {
    let [seat, absent] = <[Seat; 2]>::try_from(Seat::local(2)).expect("two");
    let error = block_on(start(seat, Duration::from_millis(30)).ready()).map(drop);
    let error = error.expect_err("nobody comes");
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    assert!(error.to_string().contains("arrived: 0; rank 1 is missing"), "{error}");
    // A rank that joins later learns that the communicator was given up.
    let late = block_on(start(absent, LIMIT).ready()).map(drop).expect_err("rank 0 is gone");
    assert!(late.is_peer_failure() && late.to_string().contains("rank 0"), "{late}");
}

#[test]
fn a_peer_that_fails_is_named() {
    let [seat, other] = <[Seat; 2]>::try_from(Seat::local(2)).expect("two");
    let (go, gone) = channel();
    let fails = thread::spawn(move || {
        let comm = start(other, LIMIT);
        gone.recv().expect("it is told");
        comm.abort_because("the disk is full")
    });
    let mut waits = start(seat, LIMIT).ready();
    let mut again = pin!(async {
        poll_fn(|context| {
            // Pending or ready, both have joined.
            let polled = Pin::new(&mut waits).poll(context);
            go.send(()).ok();
            polled
        })
        .await
    });
    match block_on(again.as_mut()) {
        Ok(comm) => drop(comm.barrier().expect_err("rank 1 is gone")),
        Err(error) => assert!(error.to_string().contains("the disk is full"), "{error}"),
    }
    fails.join().expect("no panic");
}

#[test]
fn it_is_given_once() {
    let mut alone = start(Seat::local(1).remove(0), LIMIT).ready();
    block_on(&mut alone).expect("nobody else is to come").finish().expect("nor to finish");
    let error = block_on(&mut alone).map(drop).expect_err("it was given");
    assert!(error.to_string().contains("awaited once more"), "{error}");
    assert!(alone.wait().is_err());
}

#[test]
fn threads_that_may_block_wait() {
    let mut starting: Vec<_> = Seat::local(2).into_iter().map(|seat| start(seat, LIMIT)).collect();
    let other = starting.pop().expect("two");
    let other = thread::spawn(|| adds_up(other.ready().wait()?, 2));
    let until = Instant::now() + LIMIT;
    let own = starting.pop().expect("two").ready().wait_until(until);
    adds_up(own.expect("both come"), 2).expect("both are here");
    other.join().expect("no panic").expect("both are here");
}
