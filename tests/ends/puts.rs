//! Puts into memory that a closure holds.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use typed_nccl::{Error, Result, Seat, Window};

use super::common::{Comm, Dev, build, connect, pair, seats, watched};

/// More than one chunk, so that waiting threads help.
const LARGE: usize = 1 << 18;

type Mine<T> = Window<T, Dev>;

/// Launches a closure that holds the window until the gate is dropped; returns once it runs.
fn occupy(comm: &Comm, window: &mut Mine<u64>) -> (Sender<()>, u32) {
    let (gate, wait): (Sender<()>, Receiver<()>) = channel();
    let (inside, started) = channel();
    let line = line!() + 1;
    let work = comm.stream().launch(window, move |w, ()| {
        inside.send(()).expect("heard");
        wait.recv().ok();
        w.fill(7);
    });
    work.expect("launched");
    started.recv().expect("it runs");
    (gate, line)
}

fn says(error: &Error, parts: &[&str]) {
    for part in parts {
        assert!(error.to_string().contains(part), "`{part}` is missing in: {error}");
    }
}

/// Rank 0's closure holds `len` elements of its window, and rank 1 puts there. No wait exceeds its
/// deadline, and rank 1's report names the closure.
fn a_put_meets_a_closure(len: usize) {
    let (over, until_over) = channel::<()>();
    let (occupied, until_occupied) = channel::<u32>();
    pair(
        move |seat| {
            let mut comm = build(seat, 20_000).connect().expect("init");
            let mut window = comm.window::<u64>(len).expect("window");
            comm.barrier().expect("both have it");
            let (gate, line) = occupy(&comm, &mut window);
            occupied.send(line).expect("heard");
            until_over.recv().ok();
            drop(gate);
            drop(comm);
        },
        move |seat| {
            let mut comm = build(seat, 20_000).connect().expect("init");
            let window = comm.window::<u64>(len).expect("window");
            comm.barrier().expect("both have it");
            let line = until_occupied.recv().expect("it runs");
            let here = line!() + 1;
            comm.put_signal(&window, 0, window.at(0)).expect("enqueued");
            let comm = comm.within(Duration::from_millis(300));
            let error = comm.sync(comm.stream()).expect_err("the closure has the memory");
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            let put = format!("put_signal of {len} u64 to 0, at tests/ends/puts.rs:{here}");
            let closure = format!("the closure that rank 0 launched at tests/ends/puts.rs:{line}");
            says(&error, &[&put, &closure]);
            drop(over);
        },
    );
}

#[test]
fn a_small_put_does_not_wait_inside_a_closure() {
    a_put_meets_a_closure(8);
}

#[test]
fn a_large_put_does_not_either() {
    a_put_meets_a_closure(LARGE);
}

#[test]
fn a_put_into_the_own_window_is_parked_too() {
    for len in [8, LARGE] {
        watched(move || {
            let [seat]: [Seat; 1] = seats();
            let mut comm = connect(seat);
            let mut window = comm.window::<u64>(len).expect("window");
            let (source, other) = (comm.window::<u64>(len), comm.device().stream());
            let (source, other) = (source.expect("window"), other.expect("stream"));
            let (gate, _) = occupy(&comm, &mut window);
            // Neither the enqueueing thread nor a helping one gets stuck in another stream's work.
            comm.on(&other).put_signal(&source, 0, window.at(0)).expect("enqueued");
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            x.copy_from(&[1.0; 4]).expect("nothing of this is in a window");
            let mark = other.mark().expect("mark");
            assert!(!mark.is_reached().expect("no error"));
            drop(gate);
            // Once the closure releases the range, the put completes.
            let met = other.sync().expect_err("they met");
            says(&met, &["of rank 0", "put", "nothing orders the two"]);
            assert!(mark.is_reached().expect("no error"));
            assert_eq!(window.to_vec().expect("all is over"), vec![0; len]);
            comm.wait_signal(0).expect("enqueued");
            comm.finish().expect("told already");
        });
    }
}

#[test]
fn a_parked_put_lands_when_the_closure_lets_go() -> Result<()> {
    let (occupied, until_occupied) = channel::<Sender<()>>();
    pair(
        move |seat| {
            let mut comm = connect(seat);
            let mut window = comm.window::<u64>(LARGE).expect("window");
            comm.barrier().expect("both have it");
            let (gate, _) = occupy(&comm, &mut window);
            occupied.send(gate).expect("heard");
            comm.wait_signal(1).expect("enqueued");
            let met = comm.stream().sync().expect_err("they met");
            assert!(matches!(met, Error::Hazard(_)), "{met}");
            assert_eq!(window.to_vec().expect("told already"), vec![0; LARGE]);
            comm.finish().expect("told already");
        },
        move |seat| {
            let mut comm = connect(seat);
            let window = comm.window::<u64>(LARGE).expect("window");
            comm.barrier().expect("both have it");
            let gate = until_occupied.recv().expect("it runs");
            comm.put_signal(&window, 0, window.at(0)).expect("enqueued");
            drop(gate);
            // It completes. If the order of uses is checked, this rank gets an error too.
            let lands = comm.stream().sync();
            assert!(matches!(lands, Ok(()) | Err(Error::Hazard(_))), "{lands:?}");
            let over = comm.finish();
            assert!(matches!(over, Ok(()) | Err(Error::Hazard(_))), "{over:?}");
        },
    );
    Ok(())
}
