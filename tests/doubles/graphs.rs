//! Graphs: the calls to CUDA and NCCL, their timing, and the handling of failures.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fake_cuda::Code;
use nccl_sys::Function::{
    ncclAllReduce, ncclCommAbort, ncclCommDestroy, ncclCommSuspend, ncclGroupEnd, ncclPutSignal,
    ncclSignal, ncclWaitSignal,
};
use nccl_sys::ncclResult_t;
use typed_nccl::{Cuda, Error, Result, Sum, spmd};

use crate::common::{alone, calls, clear, count, handle, says};
use crate::scenario::{NEWEST, cuda, nccl, on};

/// How often a CUDA function was called.
fn called(function: &str) -> usize {
    cuda().called().iter().filter(|call| **call == function).count()
}

#[test]
fn a_recording_is_captured_once_and_launched() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = comm.device().from_slice(&[1_u32, 2, 3, 4])?;
        let mut y = comm.device().zeros::<u32>(4)?;
        clear();
        let mut graph = comm.capture(|g| {
            g.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!((called("cuStreamBeginCapture_v2"), count(ncclAllReduce)), (0, 0));
            g.copy(&x, &mut y)?;
            g.fill(&mut x, 9)
        })?;
        assert_eq!((called("cuStreamBeginCapture_v2"), called("cuStreamEndCapture")), (1, 1));
        assert_eq!((called("cuGraphInstantiateWithFlags"), called("cuGraphDestroy")), (1, 1));
        let capturing = cuda().log().into_iter().find(|it| it.function == "cuStreamEndCapture");
        let stream = capturing.expect("it captured").argument("hStream");
        assert_eq!(calls(ncclAllReduce)[0].pointer("stream") as u64, stream);
        assert_ne!(stream, handle(comm.stream())?);
        // Nothing has run.
        assert_eq!(y.to_vec()?, [0; 4]);
        clear();
        for _ in 0..3 {
            graph.launch(&comm)?;
        }
        assert_eq!((called("cuGraphLaunch"), count(ncclAllReduce)), (3, 0));
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (0, 0));
        assert_eq!((y.to_vec()?, x.to_vec()?), (vec![9; 4], vec![9; 4]));
        // A use on another stream waits for the launch, and a launch for that use.
        let stream = comm.device().stream()?;
        clear();
        stream.fill(&mut x, 5)?;
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (1, 1));
        graph.launch(&comm)?;
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (2, 2));
        assert_eq!(y.to_vec()?, [5; 4]);
        assert_eq!(nccl().misuse(), [""; 0]);
        comm.finish()
    });
}

#[test]
fn operations_share_a_group_in_a_graph_as_outside() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut buffers: Vec<_> =
            (0..64).map(|_| comm.device().zeros::<f32>(256)).collect::<Result<_>>()?;
        clear();
        let mut graph = comm.capture(|g| {
            g.group(|g| buffers.iter_mut().try_for_each(|x| g.all_reduce_in_place(x, Sum)))
        })?;
        assert_eq!((count(ncclAllReduce), count(ncclGroupEnd)), (64, 1));
        clear();
        graph.launch(&comm)?;
        assert_eq!(cuda().called().iter().filter(|it| !it.starts_with("cuCtx")).count(), 1);
        drop(buffers);
        graph.launch(&comm)?;
        comm.finish()
    });
}

#[test]
fn what_a_communicator_does_ends_its_graphs_first() {
    on(NEWEST, || {
        for how in ["finish", "abort", "drop", "suspend", "close", "forget"] {
            let mut comm = alone()?;
            let mut x = comm.window::<f32>(4)?;
            let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
            graph.launch(&comm)?;
            assert_eq!(cuda().live().graphs, 1);
            clear();
            let graph = match how {
                "finish" => {
                    comm.finish()?;
                    Some(graph)
                }
                "abort" => {
                    comm.abort();
                    Some(graph)
                }
                "drop" => {
                    drop(comm);
                    Some(graph)
                }
                "suspend" => {
                    let comm = comm.suspend()?;
                    assert_eq!((cuda().live().graphs, count(ncclCommSuspend)), (0, 1));
                    comm.abort();
                    Some(graph)
                }
                "close" => {
                    comm.close(x)?;
                    assert_eq!(cuda().live().graphs, 0);
                    let error = graph.launch(&comm).expect_err("its window is closed");
                    says(&error, &["a graph of", "was closed", "make it again"]);
                    comm.finish()?;
                    Some(graph)
                }
                // Unreferenced: destroyed with the next graph, or with the communicator.
                _ => {
                    drop(graph);
                    assert_eq!((cuda().live().graphs, cuda().called()), (1, vec![]));
                    comm.capture(|_| Ok(()))?;
                    comm.finish()?;
                    None
                }
            };
            crate::common::until("it ends", || count(ncclCommDestroy) + count(ncclCommAbort) > 0);
            assert_eq!(cuda().live().graphs, 0, "{how}");
            assert_eq!((nccl().misuse(), cuda().misuse()), (vec![], vec![]), "{how}");
            drop(graph);
        }
        Ok(())
    });
}

#[test]
fn signals_in_a_graph_are_calls_of_nccl_in_their_order() {
    on(NEWEST, || {
        nccl().set_rma(true);
        spmd::<Cuda>(2, |place| {
            let mut comm = place.init()?;
            let other = comm.ring(1);
            let (out, into) = (comm.window::<f32>(4)?, comm.window::<f32>(4)?);
            comm.barrier()?;
            let mut graph = comm.capture(|g| {
                g.put_signal(&out, other, into.at(0))?;
                g.wait_signal(other)?;
                g.signal(other)?;
                g.wait_signal(other)
            })?;
            comm.barrier()?;
            assert_eq!((count(ncclPutSignal), count(ncclSignal), count(ncclWaitSignal)), (2, 2, 4));
            for _ in 0..3 {
                graph.launch(&comm)?;
            }
            // Signals raised and awaited in graphs leave no surplus.
            drop(graph);
            comm.finish()
        })
    });
}

/// A graph that awaits a signal does not refer to the memory that came with it, so the windows'
/// later uses are ordered after its launch.
#[test]
fn what_peers_put_is_there_after_the_launch_that_awaits_it() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let mut comm = alone()?;
        let window = comm.window::<f32>(4)?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let mut graph = comm.capture(|g| {
            g.signal(0)?;
            g.wait_signal(0)
        })?;
        let stream = comm.device().stream()?;
        stream.copy(&window, &mut x)?;
        clear();
        graph.launch(&comm)?;
        stream.copy(&window, &mut x)?;
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (1, 1));
        drop(graph);
        comm.finish()
    });
}

#[test]
fn a_capture_that_fails_leaves_no_stream_that_captures() {
    on(NEWEST, || {
        for (function, code) in [
            ("cuStreamBeginCapture_v2", Code::UNKNOWN),
            ("cuGraphInstantiateWithFlags", Code::OUT_OF_MEMORY),
        ] {
            let mut comm = alone()?;
            let mut x = comm.device().zeros::<f32>(4)?;
            cuda().fail(function, code);
            let error =
                comm.capture(|g| g.all_reduce_in_place(&mut x, Sum)).expect_err("CUDA fails");
            assert!(matches!(error, Error::CudaFailed(_)), "{error}");
            says(&error, &["capturing", &format!("{code:?}")]);
            // NCCL may have counted it, so the ranks are out of step.
            assert!(comm.health().is_err());
            comm.abort();
        }
        // NCCL refuses in the middle.
        let mut comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        nccl().fail(ncclAllReduce, ncclResult_t::ncclInvalidUsage);
        let error = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum)).expect_err("NCCL fails");
        assert!(matches!(error, Error::NcclFailed(_)), "{error}");
        comm.abort();
        // A closure panics where it is captured.
        let mut comm = alone()?;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            comm.capture(|g| {
                g.all_reduce_in_place(&mut x, Sum)?;
                g.launch(&x, |_, _| panic!("no kernel"))
            })
        }));
        assert!(panicked.is_err() && comm.health().is_err());
        comm.abort();
        // Streams and graphs still work.
        let mut comm = alone()?;
        let mut graph = comm.capture(|g| g.fill(&mut x, 2.0))?;
        graph.launch(&comm)?;
        assert_eq!(x.to_vec()?, [2.0; 4]);
        assert_eq!(cuda().live().graphs, 1);
        comm.finish()
    });
}

#[test]
fn closures_enqueue_on_the_stream_that_captures_once() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let (mut x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<i8>(4)?);
        let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = runs.clone();
        let mut graph = comm.capture(|g| {
            g.launch(&mut x, move |mut x, stream| {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                // SAFETY: this many elements exist, for as long as the graph.
                let set = unsafe {
                    cudarc::driver::sys::cuMemsetD32Async(
                        x.as_mut_ptr() as u64,
                        7.0_f32.to_bits(),
                        x.len(),
                        stream.as_ptr().cast(),
                    )
                };
                assert_eq!(set, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
            })?;
            g.convert(&x, &mut y)
        })?;
        for _ in 0..3 {
            y.copy_from(&[0; 4])?;
            graph.launch(&comm)?;
            assert_eq!(y.to_vec()?, [7; 4]);
        }
        assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 1);
        comm.finish()
    });
}

/// The calls of a captured plan's run, and the resources that it leaves.
#[test]
fn a_captured_plan_is_one_launch() {
    on(NEWEST, || {
        use typed_nccl::plan::{self, Call, Values, build::PlanBuilder};

        let mut declared = PlanBuilder::new("many");
        declared.ranks(1..);
        declared.captured();
        let g = declared.array(16).in_out::<f32>("g", |_| 64);
        let (net, compute) = (declared.stream("net"), declared.stream("compute"));
        declared.for_each("i", ..16, |plan, i| {
            plan.on(compute).run("fill").argument(i).writes(g.at(i));
            plan.on(net).after([compute]).all_reduce_in_place(g.at(i), Sum);
        });
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut comm = alone()?;
        let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let mut all =
            (0..16).map(|_| comm.device().zeros::<f32>(64)).collect::<Result<Vec<_>>>()?;
        let mut others =
            (0..16).map(|_| comm.device().zeros::<f32>(64)).collect::<Result<Vec<_>>>()?;
        let mut steps = |call: &mut Call<'_, Cuda<typed_nccl::AnyDevice>>| {
            let (i, mut g) = (call.number(0)?, call.write::<f32>(0)?);
            call.stream().fill(&mut g, i as f32)
        };
        clear();
        plan.on(&comm).write("g", &mut all).run(&mut steps)?;
        assert_eq!((called("cuStreamBeginCapture_v2"), called("cuGraphLaunch")), (1, 1));
        assert_eq!((count(ncclAllReduce), called("cuMemsetD32Async")), (16, 16));
        for (i, one) in all.iter_mut().enumerate() {
            assert_eq!(one.to_vec()?, [i as f32; 64]);
            one.copy_from(&[0.0; 64])?;
        }
        clear();
        for _ in 0..3 {
            plan.on(&comm).write("g", &mut all).run(&mut steps)?;
        }
        assert_eq!((count(ncclAllReduce), called("cuGraphLaunch")), (0, 3));
        assert_eq!(all[5].to_vec()?, [5.0; 64]);
        assert_eq!(called("cuStreamWaitEvent"), 0);
        // A use on another stream waits for the run, and the next run for that use.
        let stream = comm.device().stream()?;
        clear();
        stream.fill(&mut all[3], 5.0)?;
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (1, 1));
        plan.on(&comm).write("g", &mut all).run(&mut steps)?;
        assert_eq!((called("cuEventRecord"), called("cuStreamWaitEvent")), (2, 2));
        assert_eq!(all[3].to_vec()?, [3.0; 64]);
        // Other memory is captured anew; both graphs are kept.
        plan.on(&comm).write("g", &mut others).run(&mut steps)?;
        plan.on(&comm).write("g", &mut all).run(&mut steps)?;
        plan.on(&comm).write("g", &mut others).run(&mut steps)?;
        assert_eq!((called("cuStreamBeginCapture_v2"), called("cuGraphLaunch")), (1, 4));
        assert_eq!(others[7].to_vec()?, [7.0; 64]);
        assert_eq!(cuda().live().graphs, 2);
        // A step that fails while it is captured.
        let mut comm = {
            comm.finish()?;
            assert_eq!((cuda().live().graphs, nccl().misuse()), (0, vec![]));
            alone()?
        };
        let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let mut fails =
            |_: &mut Call<'_, Cuda<typed_nccl::AnyDevice>>| Err(Error::other("no such kernel"));
        let failed = plan.on(&comm).write("g", &mut all).run(&mut fails);
        says(&failed.expect_err("its step fails"), &["no such kernel"]);
        assert!(comm.health().is_err());
        assert_eq!(cuda().misuse(), [""; 0]);
        comm.abort();
        Ok(())
    });
}

/// NCCL's algorithm depends on the kind of memory, in captured plans too: a difference is reported
/// before anything is captured.
#[test]
fn a_captured_plan_of_memory_that_differs_is_refused() {
    on(NEWEST, || {
        use typed_nccl::plan::{self, Values, build::PlanBuilder, build::ring};

        let mut declared = PlanBuilder::new("sums");
        declared.ranks(2..=2);
        declared.captured();
        let x = declared.in_out::<f32>("x", 1000);
        let net = declared.stream("net");
        declared.on(net).all_reduce_in_place(x, Sum);
        let sums = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut declared = PlanBuilder::new("shifts");
        declared.ranks(2..=2);
        declared.captured();
        let (x, y) = (declared.input::<f32>("x", 1000), declared.output::<f32>("y", 1000));
        let net = declared.stream("net");
        declared.on(net).transfer(x, ring(1), y);
        let shifts = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        spmd::<Cuda>(2, |place| {
            let mut comm = place.init()?;
            let mut x = comm.device().nccl_zeros::<f32>(1000)?;
            let mut y = comm.device().nccl_zeros::<f32>(1000)?;
            let mut plain = comm.device().zeros::<f32>(1000)?;
            let is_first = comm.rank().index() == 0;
            if is_first {
                let _registered = comm.register_buffer(&x)?;
            }
            let mut sums = plan::bind(&mut comm, sums.plan(), &Values::new())?;
            let mut shifts = plan::bind(&mut comm, shifts.plan(), &Values::new())?;
            let refused = sums.on(&comm).write("x", &mut x).run(&mut ());
            assert_error!(
                refused,
                CapturesDiffer,
                "all_reduce of 1000 f32, Sum, both sides in windows or registered memory",
                "rank 1",
            );
            let shift = shifts.on(&comm);
            let refused = match is_first {
                true => shift.read("x", &plain).write("y", &mut y).run(&mut ()),
                false => shift.read("x", &x).write("y", &mut y).run(&mut ()),
            };
            assert_error!(refused, CapturesDiffer, "1000 f32, in memory of NCCL's allocator");
            comm.barrier()?;
            assert_eq!(called("cuStreamBeginCapture_v2"), 0);
            comm.barrier()?;
            // The plan is still usable.
            sums.on(&comm).write("x", &mut plain).run(&mut ())?;
            shifts.on(&comm).read("x", &x).write("y", &mut y).run(&mut ())?;
            comm.finish()
        })
    });
}

/// A run of a captured plan waits for the other ranks, so a capture cannot contain one. (For the
/// capturing communicator it does not compile.)
#[test]
fn a_captured_plan_does_not_run_in_a_capture() {
    on(NEWEST, || {
        use typed_nccl::plan::{self, Values, build::PlanBuilder};

        let (mut comm, mut other) = (alone()?, alone()?);
        let mut declared = PlanBuilder::new("sum");
        declared.ranks(1..);
        declared.captured();
        let x = declared.in_out::<f32>("x", 64);
        let net = declared.stream("net");
        declared.on(net).all_reduce_in_place(x, Sum);
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut plan = plan::bind(&mut other, checked.plan(), &Values::new())?;
        let (mut x, mut y) = (comm.device().zeros::<f32>(64)?, comm.device().zeros::<f32>(64)?);
        let refused = comm.capture(|g| {
            g.all_reduce_in_place(&mut y, Sum)?;
            plan.on(&other).write("x", &mut x).run(&mut ())
        });
        assert_error!(refused, WaitInCapture, "run waits on the host", "only records");
        // Neither is harmed.
        plan.on(&other).write("x", &mut x).run(&mut ())?;
        comm.capture(|g| g.all_reduce_in_place(&mut y, Sum))?.launch(&comm)?;
        other.finish()?;
        comm.finish()
    });
}
