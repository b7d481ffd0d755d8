//! Closures of graphs that panic when they are launched.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use typed_nccl::{Communicator, Error, Graph, Host, Result, Scoped, Sum, kernel};

use crate::ranks::spmd;

use super::says;

/// Panics without a message on standard error.
fn panics() -> ! {
    resume_unwind(Box::new("no gradient"))
}

/// The error of rank 0's peers at the wait after a launch.
#[track_caller]
fn refused(outcome: Result<()>) {
    let error = outcome.expect_err("rank 0 has nothing to give");
    assert!(matches!(error, Error::Refused(_)), "{error}");
    assert!(!error.is_fatal());
    says(&error, &["rank 0 refused", "tests/graphs/", "panicked: no gradient"]);
}

#[track_caller]
fn panicked(outcome: Result<()>) {
    let error = outcome.expect_err("its closure panicked");
    assert!(matches!(error, Error::Panicked(_)), "{error}");
    says(&error, &["panicked: no gradient"]);
}

/// The first launch, which panics on rank 0, and a second, which finds the ranks in step.
fn twice<'id>(
    comm: &Communicator<Host<Scoped<'id>>>,
    graph: &mut Graph<Host<Scoped<'id>>>,
    fails: &AtomicBool,
) -> Result<()> {
    fails.store(comm.rank().index() == 0, Ordering::Relaxed);
    graph.launch(comm)?;
    match comm.rank().index() {
        0 => panicked(comm.sync(comm.stream())),
        _ => refused(comm.sync(comm.stream())),
    }
    comm.health()?;
    fails.store(false, Ordering::Relaxed);
    graph.launch(comm)?;
    comm.sync(comm.stream())
}

#[test]
fn the_others_are_told_at_a_collective() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let fails = Arc::new(AtomicBool::new(false));
        let at_launch = fails.clone();
        let mut graph = comm.capture(|g| {
            g.launch(&mut x, move |x, ()| {
                x.fill(1.0);
                if at_launch.load(Ordering::Relaxed) {
                    x[2..].fill(f32::NAN);
                    panics();
                }
            })?;
            g.all_reduce_in_place(&mut x, Sum)
        })?;
        twice(&comm, &mut graph, &fails)?;
        assert_eq!(x.to_vec()?, [3.0; 4]);
        comm.finish()
    })
}

/// In a group, all of it: a send, a receive and a collective.
#[test]
fn the_others_are_told_at_a_group() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let other = 1 - comm.rank().index();
        let mut x = comm.device().from_slice(&[1_u32; 2])?;
        let (mut y, mut z) = (comm.device().zeros::<u32>(2)?, comm.device().zeros::<u32>(2)?);
        let fails = Arc::new(AtomicBool::new(false));
        let at_launch = fails.clone();
        let mut graph = comm.capture(|g| {
            g.launch(&mut x, move |_, ()| {
                if at_launch.load(Ordering::Relaxed) {
                    panics();
                }
            })?;
            g.group(|g| {
                g.send(&x, other)?;
                g.recv(&mut y, other)?;
                g.all_reduce(&x, &mut z, Sum)
            })
        })?;
        twice(&comm, &mut graph, &fails)?;
        assert_eq!((y.to_vec()?, z.to_vec()?), (vec![1; 2], vec![2; 2]));
        comm.finish()
    })
}

/// The wait takes the refused signal, and later signals match.
#[test]
fn the_others_are_told_at_a_wait() -> Result<()> {
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let other = 1 - comm.rank().index();
        let (mut out, into) = (comm.window::<u8>(2)?, comm.window::<u8>(2)?);
        out.copy_from(&[7; 2])?;
        let fails = Arc::new(AtomicBool::new(false));
        let at_launch = fails.clone();
        let mut graph = comm.capture(|g| {
            g.launch(&mut out.local_mut(), move |_, ()| {
                if at_launch.load(Ordering::Relaxed) {
                    panics();
                }
            })?;
            g.put_signal(&out, other, into.at(0))?;
            g.wait_signal(other)?;
            g.signal(other)?;
            g.wait_signal(other)
        })?;
        twice(&comm, &mut graph, &fails)?;
        assert_eq!(into.to_vec()?, [7; 2]);
        comm.finish()
    })
}

kernel! {
    /// A kernel that only takes its turn.
    fn fails();
    host { panics() }
}

#[test]
fn the_others_are_told_of_a_kernel() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().from_slice(&[1_u32; 2])?;
        let own = comm.rank().index();
        let mut graph = comm.capture(|g| {
            if own == 0 {
                g.run(fails())?;
            }
            g.all_reduce_in_place(&mut x, Sum)
        })?;
        graph.launch(&comm)?;
        match own {
            0 => panicked(comm.sync(comm.stream())),
            _ => refused(comm.sync(comm.stream())),
        }
        comm.finish()
    })
}

/// Launches before and after a graph are not part of it; what follows its panic is refused by itself.
#[test]
fn what_is_before_a_graph_happens_and_what_is_after_it_is_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let own = comm.rank().index();
        let mut x = comm.device().from_slice(&[1_u32; 2])?;
        let mut y = comm.device().from_slice(&[1_u32; 2])?;
        let mut graph = comm.capture(|g| {
            g.all_reduce_in_place(&mut x, Sum)?;
            g.launch(&mut x, move |_, ()| {
                if own == 0 {
                    panics()
                }
            })
        })?;
        comm.all_reduce_in_place(&mut y, Sum)?;
        graph.launch(&comm)?;
        comm.all_reduce_in_place(&mut y, Sum)?;
        match own {
            0 => panicked(comm.sync(comm.stream())),
            _ => refused(comm.sync(comm.stream())),
        }
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![2; 2], vec![2; 2]));
        comm.finish()
    })
}
