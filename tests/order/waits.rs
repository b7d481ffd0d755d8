//! A closure may not wait for anything.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use typed_nccl::error::Error;
use typed_nccl::{CommConfig, Communicator, Host, Result, Seat, tag};

use super::gate::{A_WHILE, Gate, PATIENCE, alone};
use crate::own_process::inside;

tag!(Part);

#[test]
fn a_closure_may_not_wait() -> Result<()> {
    let comm = alone()?;
    let (stream, other) = (comm.device().stream()?, comm.device().stream()?);
    let mut x = comm.device().from_slice(&[1, 2, 3])?;
    let (send, refusals) = channel();
    other.launch(&mut x, |x, ()| x[0] = 0)?;
    stream.launch((), move |(), ()| {
        let mark = other.mark().expect("a mark does not wait");
        let found = vec![
            ("to_vec", x.to_vec().map(drop)),
            ("copy_to", x.copy_to(&mut [0; 3])),
            ("copy_from", x.copy_from(&[4; 3])),
            ("to_vec", x.slice(0..1).to_vec().map(drop)),
            ("copy_from", x.slice_mut(0..1).copy_from(&[4])),
            ("sync", other.sync()),
            ("sync", comm.sync(&other)),
            ("wait", comm.wait(&mark)),
            ("barrier", comm.barrier()),
            ("gather_values", comm.gather_values(&1).map(drop)),
            ("broadcast_value", comm.broadcast_value(&1, 0).map(drop)),
        ];
        send.send((found, other, x)).expect("the test waits");
        drop(comm);
    })?;
    stream.sync()?;
    let (found, other, x) = refusals.recv().expect("the closure ran");
    for (operation, result) in found {
        match result {
            Err(error @ Error::WaitInLaunch(_)) => {
                assert!(error.is_refusal());
                let text = error.to_string();
                assert!(text.starts_with(operation), "{operation}: {text}");
                assert!(text.contains("tests/order/waits.rs:"), "{operation}: {text}");
            }
            other => panic!("{operation}: {other:?} instead of a refusal"),
        }
    }
    other.sync()?;
    assert_eq!(x.to_vec()?, [0, 2, 3]);
    Ok(())
}

#[test]
fn a_closure_may_copy_what_nothing_uses() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let (send, copied) = channel();
    stream.launch((), move |(), ()| {
        let copy = || {
            let mut x = host.from_slice(&[1, 2, 3])?;
            x.slice_mut(0..1).copy_from(&[7])?;
            x.to_vec()
        };
        send.send(copy()).expect("the test waits");
    })?;
    stream.sync()?;
    assert_eq!(copied.recv().expect("the closure ran")?, [7, 2, 3]);
    Ok(())
}

/// Closures run on workers, of which there is always one more: neither a waiting thread nor a
/// blocked closure keeps others from running.
#[test]
fn closures_that_are_held_up_hold_up_nobody_else() -> Result<()> {
    let host = Host::local()?;
    let gate = Gate::new();
    let (send, inside) = channel();
    let many = 2 * thread::available_parallelism().map_or(1, usize::from) + 1;
    let mut threads = Vec::new();
    for _ in 0..many {
        let (pass, send) = (gate.pass(), send.clone());
        host.stream()?.launch((), move |(), ()| {
            send.send(thread::current().id()).expect("the test waits");
            pass();
        })?;
        threads.push(inside.recv().expect("the closure runs"));
    }
    let (a, b) = (host.stream()?, host.stream()?);
    let (mut x, mut y) = (host.zeros::<i32>(2)?, host.zeros::<i32>(2)?);
    a.launch(&mut x, move |x, ()| {
        x.fill(1);
        send.send(thread::current().id()).expect("the test waits");
    })?;
    b.launch((&x, &mut y), |(x, y), ()| y.copy_from_slice(x))?;
    assert_eq!(y.to_vec()?, [1; 2]);
    assert!(!gate.is_open());
    threads.extend(inside.recv());
    assert_eq!(threads.len(), many + 1);
    assert!(!threads.contains(&thread::current().id()));
    Ok(())
}

/// Likewise for closures that are all enqueued before the first of them runs.
#[test]
fn closures_that_come_at_once_all_run_at_once() -> Result<()> {
    if !inside("closures_that_come_at_once_all_run_at_once") {
        return Ok(());
    }
    let host = Host::local()?;
    let gate = Gate::new();
    let (send, running) = channel();
    let many = 2 * thread::available_parallelism().map_or(1, usize::from) + 1;
    let streams: Result<Vec<_>> = (0..many).map(|_| host.stream()).collect();
    for stream in &streams? {
        let (pass, send) = (gate.pass(), send.clone());
        stream.launch((), move |(), ()| {
            let _ = send.send(());
            pass();
        })?;
    }
    let running = (0..many).map_while(|_| running.recv_timeout(PATIENCE / 2).ok()).count();
    assert!(!gate.is_open());
    assert_eq!(running, many, "so many closures run");
    Ok(())
}

/// A refused barrier is not an arrival: the other rank does not pass before this one has called a
/// barrier that counts.
#[test]
fn a_refused_barrier_lets_nobody_pass() -> Result<()> {
    let config = CommConfig::builder().deadline(Duration::from_secs(60)).build();
    let connect = |seat: Seat, ordinal| -> Result<_> {
        let device = Host::any(ordinal)?;
        let config = config.clone();
        Communicator::builder().seat(seat).device(device).config(config).build().connect()
    };
    let mut seats = Seat::local(2);
    let (second, first) = (seats.pop().expect("two"), seats.pop().expect("two"));
    let called = Mutex::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            let comm = connect(second, 1)?;
            let (send, back) = channel();
            let stream = comm.device().stream()?;
            stream.launch((), move |(), ()| {
                let refused = comm.barrier();
                send.send((comm, refused)).expect("the test waits");
            })?;
            let (comm, refused) = back.recv().expect("the closure ran");
            assert!(matches!(refused, Err(Error::WaitInLaunch(_))), "{refused:?}");
            thread::sleep(A_WHILE);
            *called.lock().expect("no panic") = true;
            // Whether this one counts depends on how the refusal was reported.
            drop(comm.barrier());
            Ok(())
        });
        let comm = connect(first, 0)?;
        let passed = comm.barrier().is_ok();
        let early = passed && !*called.lock().expect("no panic");
        comm.abort();
        other.join().expect("the other rank")?;
        assert!(!early, "rank 0 passed a barrier that rank 1 was refused");
        Ok(())
    })
}

/// A host-side call refused in a closure has taken its turn: the ranks' next calls meet.
#[test]
fn a_refused_host_side_call_has_taken_its_turn() -> Result<()> {
    if !inside("a_refused_host_side_call_has_taken_its_turn") {
        return Ok(());
    }
    let run = |seat: Seat| -> Result<()> {
        let rank = seat.rank().index();
        let mut comm = seat.init(Host::any(rank as u32)?)?;
        let (first, second) = if rank == 0 {
            let (send, back) = channel();
            comm.device().stream()?.launch((), move |(), ()| {
                let told = (comm.window::<f32>(4).map(drop), comm.split::<Part>(0, 0).map(drop));
                send.send((comm, told)).expect("the test waits");
            })?;
            let told;
            (comm, told) = back.recv().expect("the closure ran");
            assert!(matches!(told, (Err(Error::WaitInLaunch(_)), Err(Error::WaitInLaunch(_)))));
            told
        } else {
            (comm.window::<f32>(4).map(drop), comm.split::<Part>(0, 0).map(drop))
        };
        assert!(first.is_err() && second.is_err(), "{first:?} and {second:?}");
        let (window, part) = (comm.window::<f32>(4)?, comm.split::<Part>(0, 0)?);
        assert_eq!((window.len(), part.size()), (4, 2));
        part.finish()?;
        comm.finish()
    };
    let mut seats = Seat::local(2);
    let (second, first) = (seats.pop().expect("two"), seats.pop().expect("two"));
    thread::scope(|scope| {
        let other = scope.spawn(|| run(second));
        run(first)?;
        other.join().expect("the other rank")
    })
}
