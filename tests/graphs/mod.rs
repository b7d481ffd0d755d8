//! Graphs, on threads; `tests/gpu` runs the same on GPUs.

mod body;
#[path = "../kernels/body.rs"]
mod kernels;
mod panics;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::interop::Tensor;
use typed_nccl::{
    CallConfig, CommConfig, Communicator, Ctas, Error, GraphUse, Host, Place, Requirements, Result,
    Signals, Sum, tag,
};

use crate::ranks::spmd;

/// Time for what succeeds.
const LONG: Duration = Duration::from_secs(60);

#[track_caller]
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_graph_is_launched_again() -> Result<()> {
    [1, 2, 5]
        .into_iter()
        .try_for_each(|n| spmd::<Host>(n, |place| body::launched_again(place.init()?)))
}

#[test]
fn groups_in_a_graph() -> Result<()> {
    [1, 2, 5].into_iter().try_for_each(|n| spmd::<Host>(n, |place| body::groups(place.init()?)))
}

#[test]
fn puts_and_waits_in_turns() -> Result<()> {
    [1, 2, 3]
        .into_iter()
        .try_for_each(|n| spmd::<Host>(n, |place| body::puts_and_waits(place.init()?)))
}

#[test]
fn graphs_of_what_is_gone_are_refused_by_name() -> Result<()> {
    [2].into_iter().try_for_each(|n| spmd::<Host>(n, |place| body::stale(place.init()?)))
}

#[test]
fn communicators_end_while_there_are_graphs() -> Result<()> {
    ["finish", "abort", "drop"]
        .iter()
        .try_for_each(|how| spmd::<Host>(2, |place| body::ends(place.init()?, how)))
}

#[test]
fn closures_run_at_each_launch() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (mut x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f64>(8)?);
        // A scalar is memory like any other.
        let mut rate = comm.device().from_slice(&[2.0_f32])?;
        let mut graph = comm.capture(|g| {
            g.launch((&rate, &mut x), |(rate, x), ()| x.iter_mut().for_each(|x| *x += rate[0]))?;
            g.all_reduce_in_place(&mut x, Sum)?;
            g.convert(&x, &mut y)
        })?;
        graph.launch(&comm)?;
        assert_eq!(y.to_vec()?, [4.0; 8]);
        comm.stream().fill(&mut rate, 0.5)?;
        graph.launch(&comm)?;
        assert_eq!(y.to_vec()?, [9.0; 8]);
        comm.finish()
    })
}

#[test]
fn the_memory_is_the_graphs_too() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut out = comm.device().zeros::<u8>(3)?;
        let mut graph = {
            let mut x = comm.device().from_slice(&[1_u8, 2, 3])?;
            comm.capture(|g| {
                g.all_reduce_in_place(&mut x, Sum)?;
                g.copy(&x, &mut out)
            })?
        };
        graph.launch(&comm)?;
        graph.launch(&comm)?;
        assert_eq!(out.to_vec()?, [4, 8, 12]);
        comm.finish()
    })
}

#[test]
fn operators_and_their_scalars_are_the_graphs_too() -> Result<()> {
    spmd::<Host>(2, |place| body::operators(place.init()?))
}

#[test]
fn scalars_are_set_between_launches() -> Result<()> {
    [1, 3].into_iter().try_for_each(|n| spmd::<Host>(n, |place| body::scalars(place.init()?)))
}

#[test]
fn what_is_captured_stays_registered() -> Result<()> {
    spmd::<Host>(2, |place| body::registered(place.init()?))
}

#[test]
fn a_graph_and_its_memory_are_on_two_threads() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().from_slice(&[1_u64; 1 << 12])?;
        let mut graph = comm.capture(|g| {
            g.launch(&mut x, |x, ()| x.iter_mut().for_each(|x| *x += 1))?;
            g.launch(&mut x, |x, ()| x.iter_mut().for_each(|x| *x += 1))
        })?;
        thread::scope(|threads| {
            let reader = threads.spawn(|| -> Result<Vec<u64>> {
                for _ in 0..100 {
                    x.to_vec()?;
                }
                x.copy_from(&[0; 1 << 12])?;
                x.to_vec()
            });
            for _ in 0..200 {
                graph.launch(&comm)?;
            }
            reader.join().expect("it does not panic").map(drop)
        })?;
        comm.finish()
    })
}

/// A launch that stops behind its first step: the other ranks have its earlier ones.
#[test]
fn a_launch_that_stops_in_the_middle_ends_the_communicator() -> Result<()> {
    let (started, stopped) = (Instant::now(), AtomicBool::new(false));
    for pause in (0..).map(Duration::from_millis) {
        spmd::<Host>(1, |place| {
            stopped.store(stops_in_the_middle(place, pause)?, Relaxed);
            Ok(())
        })?;
        if stopped.load(Relaxed) {
            break;
        }
        assert!(started.elapsed() < LONG, "no launch has stopped");
    }
    Ok(())
}

/// False if the launch came before the other thread's read, and so did not stop.
fn stops_in_the_middle<T>(place: Place<Host<T>>, pause: Duration) -> Result<bool> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(Duration::from_millis(200)).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    let mut comm = comm.start()?.ready().wait_until(Instant::now() + LONG)?;
    let (mut x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
    let mut graph = comm.within(LONG).capture(|g| {
        g.all_reduce_in_place(&mut y, Sum)?;
        g.fill(&mut x, 0.0)?;
        g.all_reduce_in_place(&mut y, Sum)
    })?;
    let (stream, in_use) = (comm.device().stream()?, &Barrier::new(2));
    let stopped = thread::scope(|threads| {
        let (go, wait) = channel::<()>();
        let reads = threads.spawn(move || -> Result<Vec<f32>> {
            stream.launch(&mut x, move |x, ()| {
                x.fill(1.0);
                wait.recv().ok();
            })?;
            in_use.wait();
            x.to_vec()
        });
        in_use.wait();
        thread::sleep(pause);
        let launched = graph.launch(&comm);
        let Err(error) = launched else {
            drop(go);
            // The communicator's deadline may pass for a read after the launch.
            let _ = reads.join().expect("it does not panic");
            return Ok(false);
        };
        // Its second step waited for the reader.
        assert!(matches!(&error, Error::MemoryInUse(it) if it.waited.is_some()), "{error}");
        assert_eq!(comm.health().expect_err("its first step was issued"), error);
        drop(go);
        reads.join().expect("it does not panic")?;
        Ok(true)
    });
    comm.abort();
    stopped
}

#[test]
fn a_communicator_for_no_graphs_has_none() -> Result<()> {
    spmd::<Host>(2, |place| {
        let graphs = match place.rank().index() {
            0 => GraphUse::Auto,
            _ => GraphUse::None,
        };
        let mut comm = place.init_with(CommConfig::builder().graphs(graphs).build())?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let error = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum)).expect_err("refused");
        says(&error, &["`CommConfig::graphs` is not `GraphUse::None`"]);
        assert_eq!(matches!(error, Error::Unsupported(_)), comm.rank().index() == 1, "{error}");
        comm.finish()
    })
}

#[test]
fn what_does_not_fit_together_is_no_graph() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (own, n) = (comm.rank().index(), comm.size());
        let mut x = comm.device().zeros::<f32>(10)?;
        let mut y = comm.device().zeros::<f32>(10)?;
        let error = comm
            .capture(|g| {
                g.all_reduce_in_place(&mut x, Sum)?;
                g.all_reduce_in_place(&mut y.slice_mut(0..5 + own / 2), Sum)
            })
            .expect_err("the second differs");
        assert!(error.is_refusal());
        says(&error, &["do not fit together", "number 2 is all_reduce of 5 f32, Sum", "of 6 f32"]);
        let error = comm
            .capture(|g| match own {
                0 => Ok(()),
                _ => g.broadcast_in_place(&mut x, 1),
            })
            .expect_err("one has none");
        says(&error, &["0 collectives", "broadcast of 10 f32, root 1"]);
        let error = comm
            .capture(|g| {
                g.group(|g| match own {
                    0 => g.send(&x, 1),
                    1 => g.recv(y.slice_mut(0..9), 0),
                    _ => Ok(()),
                })
            })
            .expect_err("they differ in length");
        says(&error, &["sends [\"10 f32\"] to rank 1", "receives [\"9 f32\"] from rank 0"]);
        let config = CallConfig::builder().ctas(Ctas::at_most(1 + own as u32 / 2)).build();
        let error = comm
            .capture(|g| g.with(&config).all_reduce_in_place(&mut x, Sum))
            .expect_err("one is configured otherwise");
        says(&error, &["do not fit together", "all_reduce of 10 f32, Sum"]);
        // Nothing has happened.
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!((x.to_vec()?.len(), n), (10, 3));
        comm.finish()
    })
}

#[test]
fn signals_that_do_not_alternate_are_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let own = comm.rank().index();
        let window = comm.window::<u8>(4)?;
        let error = comm
            .capture(|g| match own {
                0 => {
                    g.put_signal(&window, 1, window.at(0))?;
                    g.put_signal(&window, 1, window.at(0))
                }
                _ => g.wait_signal(0),
            })
            .expect_err("two puts and one wait");
        says(&error, &["do not fit together", "raises a signal at rank 1 that nobody awaits"]);
        let mut both = Signals::new();
        both.expect(0).expect(0);
        let error = comm
            .capture(|g| match own {
                0 => {
                    g.put_signal(&window, 1, window.at(0))?;
                    g.put_signal(&window, 1, window.at(0))
                }
                _ => g.wait_signals(&both),
            })
            .expect_err("two puts and one wait for both");
        match own {
            0 => says(&error, &["could not", "in a graph a rank raises its next signal"]),
            _ => says(&error, &["wait_signal cannot be captured", "2 signals of rank 0"]),
        }
        let other = 1 - own;
        let error = comm
            .capture(|g| {
                g.wait_signal(other)?;
                g.signal(other)
            })
            .expect_err("both wait first");
        says(&error, &["would wait for a signal of rank"]);
        comm.signal(other)?;
        comm.wait_signal(other)?;
        comm.finish()
    })
}

#[test]
fn a_capture_that_fails_leaves_nothing() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let own = comm.rank().index();
        let mut x = comm.device().from_slice(&[1_u32; 4])?;
        // The program's own error.
        let failed = comm.capture(|g| {
            g.all_reduce_in_place(&mut x, Sum)?;
            if own == 1 { Err(Error::other("not today")) } else { Ok(()) }
        });
        match own {
            0 => says(&failed.expect_err("rank 1 failed"), &["could not: not today"]),
            _ => says(&failed.expect_err("it failed"), &["not today"]),
        }
        // A panic.
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            comm.capture(|g| {
                g.all_reduce_in_place(&mut x, Sum)?;
                assert_ne!(own, 0, "on rank 0");
                Ok(())
            })
        }));
        match panicked {
            Ok(failed) => says(&failed.expect_err("rank 0 panicked"), &["its closure panicked"]),
            Err(_) => assert_eq!(own, 0),
        }
        // A refusal that the closure ignores.
        let mut y = comm.device().zeros::<u32>(3)?;
        let failed = comm.capture(|g| {
            if own == 0 {
                let refused = g.all_reduce(&x, &mut y, Sum);
                assert!(refused.is_err());
            }
            Ok(())
        });
        let error = failed.expect_err("lengths that differ");
        says(&error, &["the receive buffer holds 3 u32"]);
        // A group's closure fails, and the capture's closure continues.
        let failed = comm.capture(|g| {
            let _ = g.group(|_| Err::<(), _>(Error::other("in a group")));
            g.all_reduce_in_place(&mut x, Sum)
        });
        assert!(failed.is_err());
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.to_vec()?, [2; 4]);
        comm.finish()
    })
}

#[test]
fn the_host_does_not_wait_in_a_capture() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let error = comm
            .capture(|g| {
                g.all_reduce_in_place(&mut x, Sum)?;
                x.to_vec().map(drop)
            })
            .expect_err("it waits");
        assert!(matches!(error, Error::WaitInCapture(_)), "{error}");
        says(&error, &["to_vec waits on the host", "nothing of it has run", "graph.launch"]);
        // Afterwards it is allowed.
        assert_eq!(x.to_vec()?, [0.0; 4]);
        comm.finish()
    })
}

/// Whether anything has used the buffer before, or the capture does.
#[test]
fn no_buffer_is_read_or_written_by_the_host_in_a_capture() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let device = comm.device().clone();
        let (mut used, mut other) = (device.zeros::<f32>(4)?, device.from_slice(&[5.0_f32; 4])?);
        for operation in ["to_vec", "copy_to", "copy_from"] {
            for of_capture in [true, false] {
                let refused = comm.capture(|g| {
                    g.all_reduce_in_place(&mut used, Sum)?;
                    let x = if of_capture { &mut used } else { &mut other };
                    match operation {
                        "to_vec" => x.to_vec().map(drop),
                        "copy_to" => x.slice(0..1).copy_to(&mut [0.0]),
                        _ => x.copy_from(&[7.0; 4]),
                    }
                });
                let error = refused.expect_err("the host uses memory");
                assert!(matches!(error, Error::WaitInCapture(_)), "{error}");
                says(&error, &[operation, "nothing of it has run"]);
            }
        }
        // What is refused has done nothing, and a new buffer is no wait.
        let mut one = None;
        let mut graph = comm.capture(|g| {
            let mut x = device.from_slice(&[1.0_f32; 4])?;
            g.all_reduce_in_place(&mut x, Sum)?;
            one = Some(x);
            Ok(())
        })?;
        graph.launch(&comm)?;
        assert_eq!(one.expect("it was made").to_vec()?, [2.0; 4]);
        assert_eq!((used.to_vec()?, other.to_vec()?), (vec![0.0; 4], vec![5.0; 4]));
        comm.finish()
    })
}

#[test]
fn lent_memory_has_no_place_in_a_graph() -> Result<()> {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let mut values = vec![1.0_f32; 4];
        let device = comm.device().clone();
        let failed =
            device.lend(&mut values, |x| comm.capture(|g| g.all_reduce_in_place(x, Sum)).map(drop));
        let error = failed.expect_err("it would be used after its loan");
        says(&error, &["all_reduce cannot be captured", "lent for the time of a closure", "adopt"]);
        let mut adopted = device.adopt(values)?;
        let graph = comm.capture(|g| g.all_reduce_in_place(&mut adopted, Sum))?;
        let failed = adopted.into_inner().expect_err("a graph has it");
        says(&failed.error, &["in use by a graph"]);
        drop(graph);
        assert_eq!(failed.value.into_inner()?, [1.0; 4]);
        // Another library's uses would not be ordered with the graph.
        let mut x = device.from_slice(&[1.0_f32; 4])?;
        let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        let failed = Tensor::export(x.into_dyn(), &[4], None).expect_err("a graph has it");
        says(&failed.error, &["export", "in use by a graph"]);
        drop(graph);
        assert!(Tensor::export(failed.value, &[4], None).is_ok());
        comm.finish()
    })
}

#[test]
fn a_suspended_communicator_forgets_its_graphs() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        graph.launch(&comm)?;
        let comm = comm.suspend()?.resume()?;
        let error = graph.launch(&comm).expect_err("it was suspended");
        says(&error, &["a graph of", "was suspended", "make it again"]);
        comm.finish()
    })
}

#[test]
fn a_communicator_that_goes_on_forgets_its_graphs() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        if comm.rank().index() == 2 {
            comm.abort();
            return Ok(());
        }
        let dead = graph.launch(&comm).and_then(|()| x.to_vec().map(drop));
        assert!(dead.is_err(), "rank 2 is gone");
        comm.recover()?;
        let error = graph.launch(&comm).expect_err("it had three ranks");
        says(&error, &["a graph of", "is stale"]);
        let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        graph.launch(&comm)?;
        comm.finish()
    })
}

/// On the host, the library's own kernels are the collectives and transfers of the same names.
#[test]
fn kernels_of_every_type_and_size() -> Result<()> {
    [1, 3].into_iter().try_for_each(|n| {
        spmd::<Host>(n, |place| kernels::every_type(place.init()?))?;
        spmd::<Host>(n, |place| kernels::every_size(place.init()?, 5000))?;
        spmd::<Host>(n, |place| kernels::many_at_once(place.init()?))
    })
}

#[test]
fn kernels_in_graphs_and_messages() -> Result<()> {
    [1, 2, 4].into_iter().try_for_each(|n| {
        spmd::<Host>(n, |place| kernels::streams_and_graphs(place.init()?, 5))?;
        spmd::<Host>(n, |place| kernels::messages(place.init()?, 6))
    })
}

#[test]
fn kernels_with_a_norm() -> Result<()> {
    [1, 3].into_iter().try_for_each(|n| spmd::<Host>(n, |place| kernels::rms_norm(place.init()?)))
}

#[test]
fn kernels_that_do_not_fit_are_refused_by_name() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let kernels = comm.kernels()?;
        let x = comm.device().from_slice(&[1.0_f32; 10])?;
        let weight = comm.device().from_slice(&[1.0_f32; 4])?;
        let mut y = comm.device().zeros::<f32>(10)?;
        let told = kernels.all_reduce_rms_norm(&comm, &x, &weight, 1e-5, &mut y);
        says(&told.expect_err("no whole rows"), &["10 f32", "whole rows, of 4"]);
        let leg = kernels.exchange(&comm).leg(x.slice(0..3), None, y.slice_mut(0..2), None);
        says(&leg.run().expect_err("lengths differ"), &["exchange", "holds 2 f32"]);
        let own = comm.rank();
        let sent = kernels.exchange(&comm).leg(x.slice(0..3), own, y.slice_mut(0..3), None);
        let told = sent.run().expect_err("nobody receives it");
        says(&told, &["sends [3] elements to itself and receives [] from itself", "one leg"]);
        let received = kernels.exchange(&comm).leg(x.slice(0..3), None, y.slice_mut(0..3), own);
        says(
            &received.run().expect_err("nobody sends it"),
            &["sends [] elements", "[3] from itself"],
        );
        assert_eq!(y.to_vec()?, [0.0; 10]);
        comm.barrier()?;
        comm.finish()
    })?;
    let alone = || typed_nccl::Seat::local(1).remove(0).init(Host::any(0)?);
    let (one, other) = (alone()?, alone()?);
    let mut x = typed_nccl::Device::zeros::<f32>(one.device(), 1)?;
    let told = one.kernels()?.all_reduce_in_place(&other, &mut x, Sum);
    says(&told.expect_err("of another one"), &["kernels"]);
    let weight = Host::any(5)?.from_slice(&[3.0_f32])?;
    let (sent, kernels) = (one.device().from_slice(&[2.0_f32])?, one.kernels()?);
    let told = kernels.all_reduce_rms_norm(&one, &sent, &weight, 1e-5, &mut x);
    says(&told.expect_err("of another device"), &["the weight is on host:5", "takes host:0"]);
    assert_eq!(x.to_vec()?, [0.0]);
    one.finish()?;
    other.finish()
}

tag!(Other);

/// A kernel would access memory that NCCL has freed.
#[test]
fn a_graph_of_a_closed_device_communicator_is_refused_by_name() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm: Communicator<_> = place.init()?;
        let (api, needs) = (comm.device_api()?, Requirements::new().lsa_barriers(1));
        let (dev, apart) = (comm.dev_comm(&api, &needs)?, comm.dev_comm(&api, &needs)?);
        let mut x = comm.device().zeros::<f32>(10)?;
        let is_first = comm.rank().index() == 0;
        // One rank's graph uses it; the others' graphs become stale too.
        let mut graph = comm.capture(|g| {
            if is_first {
                g.launch(&dev, |dev, ()| assert_eq!(dev.size(), 2))?;
            }
            g.all_reduce_in_place(&mut x, Sum)
        })?;
        let mut of_apart =
            comm.capture(|g| g.launch(&apart, |dev, ()| dev.lsa_barrier(0).sync()))?;
        graph.launch(&comm)?;
        comm.close_dev_comm(dev)?;
        for _ in 0..2 {
            let error = graph.launch(&comm).expect_err("it is closed");
            assert!(matches!(error, Error::Stale(_)), "{error}");
            says(&error, &["a graph of", "device communicator #", "was closed", "graphs/mod.rs"]);
        }
        of_apart.launch(&comm)?;

        let mut other = comm.split::<Other>(0, 0)?;
        let error = other.capture(|g| g.launch(&apart, |_, ()| {})).expect_err("another's");
        assert!(matches!(error, Error::WrongCommunicator(_)), "{error}");
        other.finish()?;
        comm.close_dev_comm(apart)?;
        comm.finish()
    })
    .map(drop)
}
