//! Work that a captured stream refuses, since it would be in a graph that neither keeps nor orders
//! it.

use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use cudarc::driver::CudaContext;
use typed_nccl::error::{AdoptFault, CaptureFault};
use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Call, Values};
use typed_nccl::{AnyDevice, Cuda, Error, Mark, Requirements, Result, Stream, Sum};

use crate::common::{alone, handle};
use crate::kernels::{asked, noted};
use crate::scenario::{NEWEST, cuda, nccl, on};

type Gpu = Cuda<AnyDevice>;

fn called(function: &str) -> usize {
    cuda().called().iter().filter(|name| **name == function).count()
}

/// Why a call was refused in a capture.
#[track_caller]
fn fault<T>(refused: Result<T>, operation: &str, remedy: &str) -> CaptureFault {
    match refused.map(drop) {
        Err(Error::NotCapturable(not)) => {
            let told = not.to_string();
            assert!(told.starts_with(&format!("{operation} cannot be captured (at ")), "{told}");
            assert!(told.contains("captured.rs:") && told.contains(remedy), "{told}");
            not.fault
        }
        other => panic!("{other:?} where a capture cannot have it"),
    }
}

#[track_caller]
fn assert_not_adoptable<T>(refused: Result<T>, operation: &str) {
    match refused.map(drop) {
        Err(Error::NotAdoptable(not)) => {
            assert_eq!((not.operation, &not.fault), (operation, &AdoptFault::Captures));
            let told = not.to_string();
            assert!(told.contains("record it with the capture"), "{told}");
        }
        other => panic!("{other:?} where a stream is captured"),
    }
}

/// A stream of the program's that waited for a step would be captured, with memory that nothing
/// keeps.
#[test]
fn no_other_stream_joins_the_capture_of_a_plan() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        let mut bound = asked::bind(&mut comm)?;
        let mut to = device.zeros::<u64>(3)?;
        let (side, mut scratch) = (device.stream()?, device.zeros::<u64>(64)?);
        let theirs = CudaContext::new(0).expect("the double's").new_stream().expect("a stream");
        let (event, outside) = (device.launch_event()?, side.mark()?);
        let refused = RefCell::new(Vec::new());
        let mut steps = bound.steps().ask(|mut to, lane: &Stream<Gpu>| {
            let marked: Result<Mark<Gpu>> = lane.mark();
            if let Ok(mark) = &marked {
                side.wait_for(mark)?;
                side.fill(&mut scratch, 7)?;
                lane.wait_for(&side.mark()?)?;
            }
            refused.borrow_mut().extend([
                ("mark", marked.map(drop)),
                ("timed_mark", lane.timed_mark().map(drop)),
                ("wait_for", lane.wait_for(&outside)),
                ("wait_launched", lane.wait_launched(&event)),
                ("Stream::after", lane.after(&theirs)),
                ("Stream::before", lane.before(&theirs)),
            ]);
            lane.fill(&mut to, 3)
        });
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        drop(steps);
        assert_eq!(refused.borrow().len(), 6);
        for (operation, outcome) in refused.take() {
            let found = fault(outcome, operation, "a step on it, in order by `after`");
            assert_eq!(found, CaptureFault::OtherStream);
        }
        // The graph contains none of it.
        drop(scratch);
        let fresh = device.zeros::<u64>(64)?;
        let mut steps = bound.steps().ask(|_, _: &Stream<Gpu>| panic!("it is captured"));
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        assert_eq!((to.to_vec()?, fresh.to_vec()?), (vec![3; 3], vec![0; 64]));
        comm.finish()
    });
}

/// A graph is of a view's place in its buffer.
#[test]
fn another_view_of_one_buffer_is_captured_anew() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut plan = PlanBuilder::new("asked");
        plan.ranks(1..);
        plan.captured();
        let (x, net) = (plan.in_out::<u64>("x", 3), plan.stream("net"));
        plan.on(net).run("ask").writes(x);
        let plan = plan.check().expect("a plan that is right");
        let mut bound = plan::bind(&mut comm, plan.plan(), &Values::new())?;
        let mut flat = comm.device().zeros::<u64>(6)?;
        let mut calls = 0;
        let mut steps = |call: &mut Call<'_, Gpu>| {
            calls += 1;
            call.stream().fill(&mut call.write::<u64>(0)?, calls)
        };
        for (first, expected) in [(0, [1, 0]), (3, [1, 2]), (0, [1, 2]), (3, [1, 2])] {
            let mut part = flat.slice_mut(first..first + 3);
            part.copy_from(&[0; 3])?;
            bound.on(&comm).write("x", &mut part).run(&mut steps)?;
            assert_eq!(flat.to_vec()?, expected.map(|value| [value; 3]).concat());
        }
        assert_eq!(calls, 2);
        comm.finish()
    });
}

/// Later runs would copy from memory that was freed.
#[test]
fn no_step_that_is_captured_copies_pinned_memory() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        let mut bound = asked::bind(&mut comm)?;
        let mut to = device.zeros::<u64>(3)?;
        let (up, down) = (device.pinned::<u64>(3)?, device.pinned::<u64>(3)?);
        let pinned = RefCell::new(Some((up, down)));
        let mut steps = bound.steps().ask(|mut to, lane: &Stream<Gpu>| {
            let (up, down) = pinned.take().expect("it is captured once");
            let up = lane.upload(up, &mut to).map_err(Error::from);
            assert_eq!(fault(up, "upload", "copy beside the run"), CaptureFault::Pinned);
            let down = lane.download(&to, down).map_err(Error::from);
            assert_eq!(fault(down, "download", "copy beside the run"), CaptureFault::Pinned);
            lane.fill(&mut to, 3)
        });
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        assert_eq!(to.to_vec()?, [3; 3]);
        comm.finish()
    });
}

/// No other rank compares a step's calls, and the graph does not keep their memory.
#[test]
fn no_step_that_is_captured_calls_a_communicator() {
    on(NEWEST, || {
        let (mut comm, mut other) = (alone()?, alone()?);
        let device = comm.device().clone();
        let mut bound = asked::bind(&mut comm)?;
        let (mut to, mut one) = (device.zeros::<u64>(3)?, device.zeros::<u64>(1)?);
        let graph = other.capture(|g| g.fill(&mut one, 1))?;
        let graph = RefCell::new(graph);
        let mut steps = bound.steps().ask(|mut to, lane: &Stream<Gpu>| {
            let remedy = "make it a statement of the plan";
            let calls = [
                ("all_reduce", comm.on(lane).all_reduce_in_place(&mut to, Sum)),
                ("all_reduce", other.on(lane).all_reduce_in_place(&mut to, Sum)),
                ("launch", graph.borrow_mut().launch_on(&other, lane)),
            ];
            for (operation, outcome) in calls {
                assert_eq!(fault(outcome, operation, remedy), CaptureFault::Communicates);
            }
            lane.fill(&mut to, 3)
        });
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        other.finish()?;
        assert_eq!(to.to_vec()?, [3; 3]);
        comm.finish()
    });
}

/// It could end while the plan's graph is still launched.
#[test]
fn a_captured_step_takes_no_device_communicator_of_others() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let (mut comm, mut other) = (alone()?, alone()?);
        let (api, far) = (comm.device_api()?, other.device_api()?);
        let needs = Requirements::new().lsa_barriers(1);
        let (dev, theirs) = (comm.dev_comm(&api, &needs)?, other.dev_comm(&far, &needs)?);
        let mut bound = asked::bind(&mut comm)?;
        let mut to = comm.device().zeros::<u64>(3)?;
        let mut steps = bound.steps().ask(|mut to, lane: &Stream<Gpu>| {
            let remedy = "make it with the communicator that the plan is bound to";
            for outcome in [
                lane.run(noted(&theirs, &mut to)),
                lane.launch((&mut to, &theirs), |_, _| panic!("it would be captured")),
            ] {
                let found = fault(outcome, "a kernel", remedy);
                assert!(matches!(found, CaptureFault::OtherDevComm { .. }), "{found:?}");
            }
            lane.run(noted(&dev, &mut to))
        });
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        other.close_dev_comm(theirs)?;
        other.finish()?;
        let own = u64::from_ne_bytes(dev.bytes()?[..8].try_into().expect("eight bytes"));
        let mut steps = bound.steps().ask(|_, _: &Stream<Gpu>| panic!("it is captured"));
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        assert_eq!((to.to_vec()?[0], called("cuGraphLaunch")), (own, 2));
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

/// Work enqueued on an adopted stream would be in the graph.
#[test]
fn a_stream_that_is_captured_is_not_adopted() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        let (side, theirs) = (device.stream()?, CudaContext::new(0).expect("the double's"));
        let theirs = theirs.new_stream().expect("a stream");
        let mut slice = theirs.clone_htod(&[1_u64; 3]).expect("there is memory");
        let side = Mutex::new(side);
        let (mut x, of) = (device.zeros::<u64>(64)?, device.clone());
        let (told, hears) = channel();
        let told = Mutex::new(told);
        let mut graph = comm.capture(|g| {
            g.launch(&mut x, move |_, raw| {
                let (captured, side) = (raw.to_cudarc(), side.lock().expect("nobody panicked"));
                assert_not_adoptable(Stream::adopt(&of, captured.clone()), "Stream::adopt");
                // SAFETY: it is a stream of that GPU, and is never destroyed.
                let raw = unsafe { Stream::from_raw(&of, raw.as_ptr()) };
                assert_not_adoptable(raw, "Stream::from_raw");
                assert_not_adoptable(side.after(&captured), "Stream::after");
                assert_not_adoptable(side.before(&captured), "Stream::before");
                let _ = told.lock().expect("nobody panicked").send(captured);
            })
        })?;
        graph.launch(&comm)?;
        // It captures again later.
        let captured: Arc<_> = hears.recv().expect("it ran");
        assert_not_adoptable(Stream::adopt(&device, captured), "Stream::adopt");
        // A stream that a program captures by itself.
        let relaxed = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        theirs.begin_capture(relaxed).expect("it is theirs");
        assert_not_adoptable(Stream::adopt(&device, theirs.clone()), "Stream::adopt");
        assert_not_adoptable(device.lend(&mut slice, |_| Ok(())), "lend");
        // SAFETY: the capture was begun here.
        let graph = unsafe { cudarc::driver::result::stream::end_capture(theirs.cu_stream()) };
        // SAFETY: it was made above.
        unsafe { cudarc::driver::result::graph::destroy(graph.expect("ended")) }.expect("there");
        Stream::adopt(&device, theirs)?;
        comm.finish()
    });
}

/// In CUDA's default mode any thread that asks the driver breaks the capture of another. The thread
/// that wakes tasks is ours, and asks all the time.
#[test]
fn captures_of_other_libraries_last_while_our_threads_look() {
    on(NEWEST, || {
        let comm = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        let held = handle(comm.stream())?;
        let theirs =
            CudaContext::new(0).and_then(|context| context.new_stream()).expect("it opens");
        cuda().hold(held);
        comm.all_reduce_in_place(&mut x, Sum)?;
        let mut work = std::pin::pin!(comm.submitted()?);
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        cuda().set_others_capture(true);
        let global = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        theirs.begin_capture(global).expect("it is theirs");
        let before = called("cuEventQuery");
        let look = |_: &usize| {
            std::thread::sleep(Duration::from_millis(1));
            called("cuEventQuery") >= before + 5
        };
        // If the capture breaks, the thread has nothing to look for any more.
        let _ = (0..5000).find(look);
        // SAFETY: the capture was begun here.
        let graph = unsafe { cudarc::driver::result::stream::end_capture(theirs.cu_stream()) };
        // SAFETY: it was made above.
        unsafe { cudarc::driver::result::graph::destroy(graph.expect("ended")) }.expect("there");
        cuda().set_others_capture(false);
        cuda().release(held);
        comm.stream().sync()?;
        comm.finish()
    });
}
