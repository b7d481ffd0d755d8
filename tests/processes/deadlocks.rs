//! Ranks without GPUs as processes that wait for each other: both are told at once, and nobody else
//! is.

use std::thread;
use std::time::Duration;

use typed_nccl::{Communicator, Device, Error, Result, Sum, launch, tag};

use crate::machine::{Run, Test, lines, output, says};

tag!(Other);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "host_processes_that_send_first",
        program: || launch!(sends_first),
        test: |run| {
            let told = told(run, "host:2,processes", 2);
            for told in told {
                let first = "rank 0 and rank 1 wait for each other";
                let sends = "rank 0 sends 4 f32 to rank 1 and waits until rank 1 receives";
                let back = "rank 1 sends 4 f32 to rank 0 and waits until rank 0 receives";
                says(
                    told.as_bytes(),
                    &[first, sends, back, "deadlocks.rs:", "put what the ranks send"],
                );
            }
        },
    },
    Test {
        name: "host_processes_of_which_one_receives_and_one_reduces",
        program: || launch!(receives_or_reduces),
        test: |run| {
            for told in told(run, "host:2,processes", 2) {
                let receives = "rank 0 receives 4 f32 from rank 1 and waits until rank 1 sends";
                let reduces = "rank 1 calls all_reduce of 4 f32 and waits until rank 0 does too";
                says(told.as_bytes(), &[receives, reduces, "the same calls in the same order"]);
            }
        },
    },
    Test {
        name: "host_processes_of_which_one_is_at_a_barrier",
        program: || launch!(is_at_a_barrier),
        test: |run| {
            for told in told(run, "host:2,processes", 2) {
                let reduces = "rank 0 calls all_reduce of 4 f32 and waits until rank 1 does too";
                let barrier =
                    "rank 1 is in `barrier` and waits for rank 0, which has not called it";
                says(told.as_bytes(), &[reduces, barrier]);
            }
        },
    },
    Test {
        name: "host_processes_with_two_communicators_in_opposite_orders",
        program: || launch!(opposite_orders),
        test: |run| {
            for told in told(run, "host:2,processes", 2) {
                let order = "use the communicators in one order on all ranks";
                says(told.as_bytes(), &["calls all_reduce of 4 f32", "of 8 f32", order]);
            }
        },
    },
    Test {
        name: "host_processes_in_a_circle_of_four",
        program: || launch!(circle),
        test: |run| {
            for told in told(run, "host:4,processes", 4) {
                says(told.as_bytes(), &["4 ranks wait for one another in a circle"]);
            }
        },
    },
    Test {
        name: "host_processes_that_only_take_their_time",
        program: || launch!(takes_its_time),
        test: |run| {
            let mut command = run.bare();
            command.env("TYPED_NCCL", "host:3,processes");
            let ended = output(command);
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(lines(&ended.stdout).len(), 3, "{ended:?}");
        },
    },
];

/// What the ranks print of their deadlock.
fn told(run: &Run, asked: &str, ranks: usize) -> Vec<String> {
    let mut command = run.bare();
    command.env("TYPED_NCCL", asked);
    let ended = output(command);
    assert!(ended.status.success(), "{ended:?}");
    let of = |line: String| line.split_once("deadlock: ").map(|(_, told)| told.to_owned());
    let told: Vec<String> = lines(&ended.stdout).into_iter().filter_map(of).collect();
    assert_eq!(told.len(), ranks, "{ended:?}");
    told
}

/// Prints the deadlock that ends a communicator's work.
fn tells<T>(outcome: Result<T>) -> Result<()> {
    match outcome.map(drop) {
        Err(error @ Error::Deadlock(_)) => {
            println!("deadlock: {}", error.to_string().replace('\n', " "));
            Ok(())
        }
        Err(error) => Err(error),
        Ok(()) => Err(Error::other("it ended")),
    }
}

fn sends_first<D: Device>(comm: Communicator<D>) -> Result<()> {
    let peer = comm.ring(1);
    let (x, mut y) = (comm.device().from_slice(&[1_f32; 4])?, comm.device().zeros::<f32>(4)?);
    comm.send(&x, peer)?;
    comm.recv(&mut y, peer)?;
    tells(y.to_vec())
}

fn receives_or_reduces<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_f32; 4])?;
    match comm.rank().index() {
        0 => comm.recv(&mut x, 1)?,
        _ => comm.all_reduce_in_place(&mut x, Sum)?,
    }
    tells(x.to_vec())
}

fn is_at_a_barrier<D: Device>(comm: Communicator<D>) -> Result<()> {
    // Both have been in exchanges and operations that ended.
    let mut x = comm.device().from_slice(&[1_f32; 4])?;
    for _ in 0..3 {
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.barrier()?;
    }
    match comm.rank().index() {
        0 => {
            comm.all_reduce_in_place(&mut x, Sum)?;
            tells(x.to_vec())
        }
        _ => tells(comm.barrier()),
    }
}

fn opposite_orders<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let other = comm.split::<Other>(0, 0)?;
    let mut x = comm.device().from_slice(&[1_f32; 4])?;
    let mut y = comm.device().from_slice(&[1_f32; 8])?;
    let stream = comm.stream();
    match comm.rank().index() {
        0 => {
            comm.all_reduce_in_place(&mut x, Sum)?;
            other.on(stream).all_reduce_in_place(&mut y, Sum)?;
        }
        _ => {
            other.on(stream).all_reduce_in_place(&mut y, Sum)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
        }
    }
    tells(x.to_vec())
}

fn circle<D: Device>(comm: Communicator<D>) -> Result<()> {
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let (x, mut y) = (comm.device().from_slice(&[1_f32; 4])?, comm.device().zeros::<f32>(4)?);
    comm.send(&x, right)?;
    comm.recv(&mut y, left)?;
    tells(y.to_vec())
}

/// Everything looks as in a deadlock but that one thread comes late: it sleeps, a closure makes the
/// call possible, or another thread has the communicator that is waited for.
fn takes_its_time<D: Device + 'static>(mut comm: Communicator<D>) -> Result<()> {
    let late = Duration::from_millis(400);
    let other = comm.split::<Other>(0, 0)?;
    let mut x = comm.device().from_slice(&[1_f32; 4])?;
    // One rank sleeps.
    if comm.rank().index() == 1 {
        thread::sleep(late);
    }
    comm.all_reduce_in_place(&mut x, Sum)?;
    x.to_vec()?;
    // One rank's stream is in a closure.
    if comm.rank().index() == 2 {
        comm.stream().launch((), move |(), _| thread::sleep(late))?;
    }
    comm.all_reduce_in_place(&mut x, Sum)?;
    x.to_vec()?;
    comm.barrier()?;
    // One rank waits in one communicator, and another thread of it sleeps before it calls the other
    // one, for which all others wait.
    let mut y = other.device().from_slice(&[1_f32; 8])?;
    if comm.rank().index() == 0 {
        let called = thread::spawn(move || {
            thread::sleep(late);
            other.all_reduce_in_place(&mut y, Sum)?;
            y.to_vec()?;
            other.finish()
        });
        comm.barrier()?;
        called.join().expect("no panic")?;
    } else {
        other.all_reduce_in_place(&mut y, Sum)?;
        y.to_vec()?;
        comm.barrier()?;
        other.finish()?;
    }
    println!("{:?}", x.to_vec()?);
    comm.finish()
}
