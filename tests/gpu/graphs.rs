//! CUDA graphs of NCCL's work.

use std::ffi::c_void;
use std::task::{Context, Waker};
use std::time::Duration;

use cudarc::driver::{CudaContext, result, sys};
use typed_nccl::plan::{self, Values, build::PlanBuilder};
use typed_nccl::{Communicator, Cuda, Result, Seat, Sum, World};

use crate::common::{busy, connect, gpu, ranks};
use crate::declared::steps_of;
use crate::windows::one_sided;

#[path = "../graphs/body.rs"]
pub(crate) mod body;

/// How often each graph is launched where the numbers are checked at once.
fn launches() -> u64 {
    busy(1000, 20) as u64
}

pub(crate) fn launched_again() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::launched_again(connect(place, 60)?)).map(drop)
}

pub(crate) fn in_groups() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::groups(connect(place, 60)?)).map(drop)
}

pub(crate) fn puts_and_waits() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    Cuda::spmd(ranks()?, |place| body::puts_and_waits(connect(place, 60)?)).map(drop)
}

pub(crate) fn operators() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::operators(connect(place, 60)?)).map(drop)
}

pub(crate) fn scalars() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::scalars(connect(place, 60)?)).map(drop)
}

pub(crate) fn registered() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::registered(connect(place, 60)?)).map(drop)
}

pub(crate) fn stale() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::stale(connect(place, 60)?)).map(drop)
}

pub(crate) fn finish_with_graphs() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::ends(connect(place, 60)?, "finish")).map(drop)
}

pub(crate) fn abort_with_graphs() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::ends(connect(place, 60)?, "abort")).map(drop)
}

pub(crate) fn drop_with_graphs() -> Result<()> {
    Cuda::spmd(ranks()?, |place| body::ends(connect(place, 60)?, "drop")).map(drop)
}

/// A kernel between collectives, launched many times without the host: every element of the result
/// matters.
pub(crate) fn a_kernel_in_a_graph() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let n = comm.size() as u64;
        let mut ones = comm.device().zeros::<u32>(1 << 16)?;
        let mut wide = comm.device().zeros::<u64>(1 << 16)?;
        let mut total = comm.device().zeros::<u64>(1 << 16)?;
        let mut both = comm.device().zeros::<u64>(1 << 16)?;
        let mut graph = comm.capture(|g| {
            g.launch(&mut ones, |mut ones, stream| {
                let (at, len) = (ones.as_mut_ptr() as u64, ones.len());
                // SAFETY: the view has this many elements of 4 bytes, and belongs to the stream.
                let set = unsafe { sys::cuMemsetD32Async(at, 1, len, stream.as_ptr().cast()) };
                assert_eq!(set, sys::CUresult::CUDA_SUCCESS);
            })?;
            g.all_reduce_in_place(&mut ones, Sum)?;
            g.convert(&ones, &mut wide)?;
            // Adds the current sums: this rank's share, and `n` times that over all ranks.
            g.all_reduce(&wide, &mut both, Sum)?;
            g.copy(&both, &mut total)
        })?;
        for _ in 0..launches() {
            graph.launch(&comm)?;
        }
        assert!(total.to_vec()?.iter().all(|&x| x == n * n));
        comm.finish()
    })
    .map(drop)
}

/// 64 small all_reduces of a captured plan, many times.
pub(crate) fn a_captured_plan() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let mut declared = PlanBuilder::new("many");
        declared.ranks(1..);
        declared.captured();
        let g = declared.array(64).in_out::<u64>("g", |_| 128);
        let net = declared.stream("net");
        declared.for_each("i", ..64, |plan, i| {
            plan.on(net).all_reduce_in_place(g.at(i), Sum);
        });
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let mut all = (0..64).map(|_| comm.device().zeros(128)).collect::<Result<Vec<_>>>()?;
        let own = comm.rank().index() as u64;
        for round in 0..20_u64 {
            for (i, one) in all.iter_mut().enumerate() {
                one.copy_from(&[own + i as u64 + round; 128])?;
            }
            plan.on(&comm).write("g", &mut all).run(&mut ())?;
            let n = comm.size() as u64;
            for (i, one) in all.iter().enumerate() {
                let expected = n * (n - 1) / 2 + n * (i as u64 + round);
                assert_eq!(one.to_vec()?, [expected; 128], "buffer {i}, run {round}");
            }
        }
        // Without the host in between: sums wrap, equally on all ranks.
        sums_wrap(&comm, &mut all, |comm, all| plan.on(comm).write("g", all).run(&mut ()))?;
        drop(plan);
        comm.finish()
    })
    .map(drop)
}

/// Two streams that wait for each other, with no other ordering.
pub(crate) fn a_captured_plan_of_two_streams() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let mut declared = PlanBuilder::new("beside");
        declared.ranks(1..);
        declared.captured();
        let g = declared.array(8).output::<u64>("g", |_| 128);
        let sums = declared.array(8).output::<u64>("sums", |_| 128);
        let (net, compute) = (declared.stream("net"), declared.stream("compute"));
        declared.for_each("i", ..8, |plan, i| {
            plan.on(compute).run("fill").argument(i).writes(g.at(i));
            plan.on(net).after([compute]).all_reduce(g.at(i), sums.at(i), Sum);
        });
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        let zeros = || (0..8).map(|_| comm.device().zeros(128)).collect::<Result<Vec<_>>>();
        let (mut g, mut sums) = (zeros()?, zeros()?);
        let (n, own) = (comm.size() as u64, comm.rank().index() as u64);
        let mut fill = steps_of(&comm, |call| {
            let (i, mut g) = (call.number(0)?, call.write::<u64>(0)?);
            call.stream().fill(&mut g, own + i as u64)
        });
        for round in 0..10 {
            for one in g.iter_mut().chain(&mut sums) {
                comm.stream().fill(one, 77)?;
            }
            plan.on(&comm).write("g", &mut g).write("sums", &mut sums).run(&mut fill)?;
            for (i, one) in sums.iter().enumerate() {
                let expected = n * (n - 1) / 2 + n * i as u64;
                assert_eq!(one.to_vec()?, [expected; 128], "buffer {i}, run {round}");
            }
        }
        drop(plan);
        comm.finish()
    })
    .map(drop)
}

fn sums_wrap<W: World, B>(
    comm: &Communicator<W>,
    all: &mut Vec<B>,
    mut run: impl FnMut(&Communicator<W>, &mut Vec<B>) -> Result<()>,
) -> Result<()>
where
    B: std::borrow::BorrowMut<typed_nccl::Buffer<u64, W::Device>>,
{
    for one in all.iter_mut() {
        one.borrow_mut().copy_from(&[1; 128])?;
    }
    for _ in 0..launches() {
        run(comm, all)?;
    }
    let expected = (0..launches()).fold(1_u64, |x, _| x.wrapping_mul(comm.size() as u64));
    for one in all.iter() {
        assert_eq!(one.borrow().to_vec()?, [expected; 128]);
    }
    Ok(())
}

/// A capture in CUDA's default mode breaks if any thread asks the driver. The thread that wakes
/// tasks is ours, and asks while the capture lasts.
pub(crate) fn a_capture_of_another_library() -> Result<()> {
    unsafe extern "C" fn rest(_: *mut c_void) {
        std::thread::sleep(Duration::from_millis(500));
    }
    let comm = Seat::local(1).remove(0).init(gpu(0)?)?;
    let theirs = CudaContext::new(0).and_then(|context| context.new_stream()).expect("it opens");
    comm.stream().launch((), |(), raw| {
        // SAFETY: the stream is alive, and the function needs no data.
        let enqueued = unsafe {
            result::stream::launch_host_function(
                raw.to_cudarc().cu_stream(),
                rest,
                std::ptr::null_mut(),
            )
        };
        enqueued.expect("it is enqueued");
    })?;
    let mut work = std::pin::pin!(comm.submitted()?);
    let mut context = Context::from_waker(Waker::noop());
    assert!(work.as_mut().poll(&mut context).is_pending());
    let global = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    theirs.begin_capture(global).expect("it is theirs");
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: the capture was begun here.
    let graph = unsafe { result::stream::end_capture(theirs.cu_stream()) };
    // SAFETY: it was made above.
    unsafe { result::graph::destroy(graph.expect("nobody broke it")) }.expect("it is there");
    comm.stream().sync()?;
    comm.finish()
}
