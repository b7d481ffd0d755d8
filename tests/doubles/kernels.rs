//! Kernels on GPUs: compiled once, loaded once per GPU, launched with their arguments in stream
//! order.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use nccl_sys::Function::ncclDevCommDestroy;
use typed_nccl::error::KernelFault;
use typed_nccl::{
    AnyDevice, Cuda, DevComm, Device, Error, Requirements, Result, Stream, kernel, plan,
};

use crate::axpy::axpy;
use crate::common::{alone, clear, count, handle, until};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

type Gpu = Cuda<AnyDevice>;

kernel! {
    /// Every width of scalars, and one block for each element.
    #[launch(threads = 1, blocks = y.len() + n)]
    fn widths(is: bool, a: u8, n: usize, b: u32, c: u64, y: &mut [u32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx r#"
        .visible .entry widths(
            .param .u8 is, .param .u8 a, .param .u64 n, .param .u32 b, .param .u64 c,
            .param .u64 y, .param .u64 y_len
        )
        {
            mov.u32 %i, %ctaid.x;
            ld.param.u64 %n, [y_len];
            cvt.u64.u32 %i, %i;
            setp.ge.u64 %p, %i, %n;
            @%p bra END;
            ld.param.u32 %v, [is];
            ld.param.u32 %w, [a];
            mul.lo.u32 %w, %w, 10;
            add.u32 %v, %v, %w;
            ld.param.u32 %w, [b];
            add.u32 %v, %v, %w;
            ld.param.u64 %w, [c];
            add.u32 %v, %v, %w;
            mov.u32 %w, %nctaid.x;
            mul.lo.u32 %w, %w, 1000000;
            add.u32 %v, %v, %w;
            mul.lo.u64 %o, %i, 4;
            ld.param.u64 %y, [y];
            add.u64 %y, %y, %o;
            st.global.u32 [%y], %v;
        END:
            ret;
        }
    "#;
}

kernel! {
    fn broken(y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe cuda r#"
        y[0] = 1;
        #error as it was told
    "#;
}
const ERROR: u32 = line!() - 3;

kernel! {
    #[launch(needs = sm_100)]
    fn newer(y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe cuda "y[0] = 1;";
}

kernel! {
    fn misnamed(y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx ".visible .entry other(.param .u64 y, .param .u64 y_len) { ret; }";
}

kernel! {
    /// A kernel's view of a device communicator and of a window.
    #[launch(threads = 1, blocks = 1)]
    fn given(dev: &DevComm, from: &mut Window<f64>, to: &mut [u64]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx r#"
        .visible .entry given(
            .param .align 8 .b8 dev[248], .param .u64 from, .param .u64 from_len, .param .u64 to, .param .u64 to_len
        )
        {
            ld.param.u64 %y, [to];
            ld.param.u64 %v, [dev];
            st.global.u64 [%y], %v;
            add.u64 %y, %y, 8;
            ld.param.u64 %v, [from];
            st.global.u64 [%y], %v;
            add.u64 %y, %y, 8;
            ld.param.u64 %v, [from_len];
            st.global.u64 [%y], %v;
            ret;
        }
    "#;
}

kernel! {
    /// A kernel's view of a barrier and of a part of a window.
    #[launch(threads = 1, blocks = part.len())]
    fn parts(dev: &DevComm, at: Barrier, part: &WindowSlice<f64>, to: &mut [u64]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx r#"
        .visible .entry parts(
            .param .align 8 .b8 dev[248], .param .u32 at, .param .u64 part, .param .u64 part_start,
            .param .u64 part_len, .param .u64 to, .param .u64 to_len
        )
        {
            ld.param.u64 %y, [to];
            ld.param.u32 %v, [at];
            st.global.u64 [%y], %v;
            add.u64 %y, %y, 8;
            ld.param.u64 %v, [part];
            st.global.u64 [%y], %v;
            add.u64 %y, %y, 8;
            ld.param.u64 %v, [part_start];
            st.global.u64 [%y], %v;
            add.u64 %y, %y, 8;
            ld.param.u64 %v, [part_len];
            st.global.u64 [%y], %v;
            ret;
        }
    "#;
}

/// The same for every device.
fn twice<D: Device>(device: &D, stream: &Stream<D>) -> Result<()> {
    let x = device.from_slice(&(0..100).map(|at| at as f32).collect::<Vec<_>>())?;
    let mut y = device.from_slice(&[1.0; 100])?;
    stream.run(axpy(2.0, &x, &mut y))?;
    device.stream()?.run(axpy(0.5, x.slice(50..60), &mut y.slice_mut(20..30)))?;
    let expected = (0..100).map(|at| {
        1.0 + 2.0 * at as f32 + if (20..30).contains(&at) { (30 + at) as f32 / 2.0 } else { 0.0 }
    });
    assert_eq!(y.to_vec()?, expected.collect::<Vec<_>>());
    Ok(())
}

fn called(function: &str) -> usize {
    cuda().called().iter().filter(|name| **name == function).count()
}

#[test]
fn one_source_for_both_devices() {
    on(NEWEST, || {
        let comm = alone()?;
        twice(comm.device(), comm.stream())?;
        let host = typed_nccl::Host::local()?;
        twice(&host, &host.stream()?)?;
        // As many blocks as cover the longest slice.
        let launches = cuda().log().into_iter().filter(|call| call.function == "cuLaunchKernel");
        let blocks: Vec<_> = launches.map(|call| call.argument("gridDimX")).collect();
        assert_eq!(blocks, [4, 1]);
        assert_eq!([called("nvrtcCompileProgram"), called("cuModuleLoadData")], [1, 1]);
        comm.finish()
    });
}

#[test]
fn arguments_of_every_width() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (stream, mut y) = (device.stream()?, device.zeros::<u32>(3)?);
        stream.run(widths(true, 2, 1, 300, 4000, &mut y))?;
        assert_eq!(y.to_vec()?, [4_004_321; 3]);
        stream.run(widths(false, 0, 0, 1, 0, &mut y).grid(7, 1))?;
        assert_eq!(y.to_vec()?, [7_000_001; 3]);
        assert_eq!(called("nvrtcCompileProgram"), 0, "the driver compiles PTX");
        Ok(())
    });
}

#[test]
fn compiled_once_for_many_gpus_and_threads() {
    on(NEWEST, || {
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for ordinal in [0, 1, 0, 1] {
                let start = &start;
                scope.spawn(move || {
                    let device = Gpu::any(ordinal).expect("a GPU");
                    let stream = device.stream().expect("a stream");
                    start.wait();
                    twice(&device, &stream).expect("it runs");
                });
            }
        });
        assert_eq!([called("nvrtcCompileProgram"), called("cuModuleLoadData")], [1, 2]);
        Ok(())
    });
}

/// The error of a refused `run`, which enqueued nothing.
fn fault(refused: Result<()>) -> (KernelFault, String) {
    assert_eq!(called("cuLaunchKernel"), 0);
    let told = refused.expect_err("it cannot run");
    assert!(told.is_refusal());
    match &told {
        Error::BadKernel(bad) => (bad.fault.clone(), told.to_string()),
        other => panic!("{other} instead of a bad kernel"),
    }
}

#[test]
fn what_does_not_compile_is_told_with_its_line() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (stream, mut y) = (device.stream()?, device.zeros::<f32>(3)?);
        for _ in 0..2 {
            let (fault, text) = fault(stream.run(broken(&mut y)));
            assert!(matches!(fault, KernelFault::DoesNotCompile { .. }), "{text}");
            let place = format!("tests/doubles/kernels.rs({ERROR}): error: #error as it was told");
            for part in ["`broken`", "NVRTC 12.8", "sm_90", &place] {
                assert!(text.contains(part), "`{part}` is missing in: {text}");
            }
        }
        // The stream still works.
        twice(&device, &stream)
    });
}

kernel! {
    fn of_the_host(y: &mut [f32]);
    host {
        y.fill(1.0);
    }
}

impl<T> kernel::RunsOn<Cuda<T>> for of_the_host {}

/// In the words of `kernel!`, with CUDA for which there was no `unsafe`.
struct ByHand;

impl kernel::Declared for ByHand {
    const KERNEL: &'static kernel::Kernel = &kernel::Kernel {
        cuda: <broken as kernel::Declared>::KERNEL.cuda,
        ..*<of_the_host as kernel::Declared>::KERNEL
    };
}

impl<T> kernel::RunsOn<Cuda<T>> for ByHand {}

/// A program in safe code can claim a body that a kernel lacks.
#[test]
fn a_body_that_is_not_there_is_not_loaded() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (stream, mut y) = (device.stream()?, device.zeros::<f32>(3)?);
        let (found, text) = fault(stream.run(of_the_host(&mut y)));
        assert!(matches!(found, KernelFault::NotLoaded { .. }), "{text}");
        let by_hand = kernel::Launch::<ByHand, _, _>::on_host((y.slice_mut(0..3),));
        let (found, text) = fault(stream.run(by_hand));
        assert!(matches!(found, KernelFault::NotLoaded { .. }), "{text}");
        twice(&device, &stream)
    });
}

#[test]
fn what_does_not_fit_is_told() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (stream, mut y) = (device.stream()?, device.zeros::<f32>(3)?);
        let (found, text) = fault(stream.run(newer(&mut y)));
        assert!(matches!(found, KernelFault::Architecture { .. }), "{text}");
        assert!(text.contains("sm_100") && text.contains("sm_90"), "{text}");
        let (found, text) = fault(stream.run(misnamed(&mut y)));
        assert!(matches!(found, KernelFault::NotLoaded { .. }), "{text}");
        assert!(text.contains("CUDA_ERROR_NOT_FOUND"), "{text}");
        let mut x = device.zeros::<f32>(3)?;
        for (blocks, threads) in [(0, 32), (1, 0), (1, 1025), (u32::MAX, 32)] {
            let (found, text) = fault(stream.run(axpy(1.0, &y, &mut x).grid(blocks, threads)));
            assert!(matches!(found, KernelFault::Grid { .. }), "{text}");
        }
        Ok(())
    });
}

/// The cache of the scenarios of one test run.
fn cache() -> PathBuf {
    let run = std::os::unix::process::parent_id();
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("doubles/cache.{run}"))
}

fn keeps(compiles: usize) -> Result<PathBuf> {
    // SAFETY: no other thread of this process reads the environment now.
    unsafe { std::env::set_var("TYPED_NCCL_CACHE", cache()) };
    let device = Gpu::any(0)?;
    twice(&device, &device.stream()?)?;
    assert_eq!(called("nvrtcCompileProgram"), compiles);
    let files: Vec<_> = fs::read_dir(cache()).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    Ok(files[0].path())
}

#[test]
fn kept_from_one_process_to_the_next() {
    on(NEWEST, || keeps(1).map(drop));
    on(release("2.31.1"), || {
        let file = keeps(0)?;
        let mut bytes = fs::read(&file).expect("a file");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&file, bytes).expect("written");
        Ok(())
    });
    // It was damaged.
    on(release("2.30.3"), || keeps(1).map(drop));
    on(release("2.29.7"), || {
        keeps(0)?;
        fs::remove_dir_all(cache()).expect("removed");
        Ok(())
    });
}

#[test]
fn device_communicators_and_windows_are_arguments() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let (mut comm, mut other) = (alone()?, alone()?);
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
        let (mut window, mut far) = (comm.window::<f64>(100)?, other.window::<f64>(100)?);
        let mut to = comm.device().zeros::<u64>(3)?;
        comm.stream().run(given(&dev, &mut window, &mut to))?;
        let first = u64::from_ne_bytes(dev.bytes()?[..8].try_into().expect("eight bytes"));
        let handle = comm.window_handle(&window)?.expect("NCCL has one");
        assert_eq!(to.to_vec()?, [first, handle.as_ptr().addr() as u64, 100]);

        let refused = comm.stream().run(given(&dev, &mut far, &mut to)).expect_err("another's");
        assert!(matches!(&refused, Error::WrongCommunicator(_)), "{refused}");
        comm.close(window)?;
        comm.close_dev_comm(dev)?;
        comm.finish()?;
        other.finish()
    });
}

#[test]
fn parts_of_windows_and_barriers_are_arguments() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let needs = Requirements::new().lsa_barriers(4);
        let (dev, other) = (comm.dev_comm(&api, &needs)?, comm.dev_comm(&api, &needs)?);
        let (window, mut to) = (comm.window::<f64>(100)?, comm.device().zeros::<u64>(4)?);
        let at = dev.lsa_barrier(3)?;
        let handle = comm.window_handle(&window)?.expect("NCCL has one");
        let handle = handle.as_ptr().addr() as u64;
        comm.stream().run(parts(&dev, at, &window.slice(10..80), &mut to))?;
        assert_eq!(to.to_vec()?, [3, handle, 10, 70]);
        let launch = cuda().log().into_iter().find(|call| call.function == "cuLaunchKernel");
        assert_eq!(launch.expect("it ran").argument("gridDimX"), 70);
        comm.stream().run(parts(&dev, at, &window, &mut to))?;
        assert_eq!(to.to_vec()?, [3, handle, 0, 100]);

        let theirs = other.lsa_barrier(3)?;
        let refused = comm.stream().run(parts(&dev, theirs, &window, &mut to));
        let refused = refused.expect_err("another device communicator's");
        assert!(matches!(&refused, Error::BadKernel(_)) && refused.is_refusal(), "{refused}");
        comm.close_dev_comm(dev)?;
        comm.close_dev_comm(other)?;
        comm.finish()
    });
}

kernel! {
    /// Stores the first word of a device communicator.
    pub(crate) fn noted(dev: &DevComm, to: &mut [u64]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx r#"
        .visible .entry noted(.param .align 8 .b8 dev[248], .param .u64 to, .param .u64 to_len)
        {
            ld.param.u64 %y, [to];
            ld.param.u64 %v, [dev];
            st.global.u64 [%y], %v;
            ret;
        }
    "#;
}

plan! {
    /// Reads a kernel's arguments, in a graph.
    #[capture]
    pub(crate) asked(n: Ranks) {
        out to: [u64; 3];
        run ask(write to);
    }
}

/// A plan's graph keeps the plan's memory. Runs that do not have other memory would use it.
#[test]
fn a_captured_step_has_the_plans_memory_alone() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut bound = asked::bind(&mut comm)?;
        let mut to = comm.device().zeros::<u64>(3)?;
        let other = comm.device().from_slice(&[7_u64; 3])?;
        let refused = Cell::new(None);
        let mut steps = bound.steps().ask(|mut to, stream: &Stream<Gpu>| {
            refused.set(stream.copy(&other, &mut to).err());
            stream.fill(&mut to, 3)
        });
        bound.run(&comm, asked::Buffers { to: &mut to }, &mut steps)?;
        let refused = refused.take().expect("it is not the plan's");
        assert!(matches!(refused, Error::NotCapturable(_)), "{refused}");
        let mut steps =
            bound.steps().ask(|mut to, stream: &Stream<Gpu>| stream.copy(&other, &mut to));
        let mut another = comm.device().zeros::<u64>(3)?;
        let told = bound.run(&comm, asked::Buffers { to: &mut another }, &mut steps);
        let told = told.expect_err("as above").to_string();
        let parts = ["kernels.rs", "memory that is not the plan's", "make it a buffer of the plan"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        Ok(())
    });
}

/// A graph's use of a device communicator ends before NCCL's device communicator.
#[test]
fn graphs_end_with_the_device_communicators_that_their_kernels_take() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let needs = Requirements::new().lsa_barriers(1);
        let (dev, next) = (comm.dev_comm(&api, &needs)?, comm.dev_comm(&api, &needs)?);
        let (mut window, mut to) = (comm.window::<f64>(100)?, comm.device().zeros::<u64>(3)?);
        let mut graph = comm.capture(|g| g.run(given(&dev, &mut window, &mut to)))?;
        graph.launch(&comm)?;
        let mut bound = asked::bind(&mut comm)?;
        let mut run = |comm: &_, to: &mut _, dev: &DevComm<Gpu>| {
            let mut steps =
                bound.steps().ask(|mut to, stream: &Stream<Gpu>| stream.run(noted(dev, &mut to)));
            bound.run(comm, asked::Buffers { to }, &mut steps)
        };
        run(&comm, &mut to, &dev)?;
        run(&comm, &mut to, &dev)?;
        assert_eq!((cuda().live().graphs, called("cuGraphLaunch")), (2, 3));
        comm.close_dev_comm(dev)?;
        assert_eq!(cuda().live().graphs, 0);
        let error = graph.launch(&comm).expect_err("it is closed");
        assert!(matches!(error, Error::Stale(_)), "{error}");
        // A plan captures anew, with its present arguments.
        run(&comm, &mut to, &next)?;
        let first = u64::from_ne_bytes(next.bytes()?[..8].try_into().expect("eight bytes"));
        assert_eq!(to.to_vec()?[0], first);
        comm.close(window)?;
        comm.close_dev_comm(next)?;
        comm.finish()
    });
}

#[test]
fn a_device_communicator_that_has_ended_is_refused() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
        let (mut window, mut to) = (comm.window::<f64>(100)?, comm.device().zeros::<u64>(3)?);
        let stream = comm.device().stream()?;
        comm.finish()?;
        let refused = stream.run(given(&dev, &mut window, &mut to)).expect_err("it has ended");
        assert!(matches!(&refused, Error::Stale(_)), "{refused}");
        Ok(())
    });
}

kernel! {
    #[launch(threads = 1, blocks = x.len() + 1)]
    fn takes(dev: &DevComm, a: f32, x: &[f32], y: &mut [f32]);
    // SAFETY: what runs of it stays within its slices.
    unsafe ptx r#"
        .visible .entry takes(
            .param .align 8 .b8 dev[248], .param .f32 a, .param .u64 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len
        )
        { ret; }
    "#;
}

#[test]
fn a_warm_launch_asks_the_driver_for_the_launch_alone() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        let (x, mut y) = (comm.device().zeros(2)?, comm.device().zeros(2)?);
        // Another stream has the device communicator too, with its own memory.
        let (stream, mut other) = (comm.device().stream()?, comm.device().zeros(2)?);
        let small = comm.device().zeros(2)?;
        for _ in 0..2 {
            comm.stream().run(takes(&dev, 1.0, &x, &mut y))?;
            stream.run(takes(&dev, 1.0, &small, &mut other))?;
        }
        cuda().clear();
        comm.stream().run(takes(&dev, 1.0, &x, &mut y))?;
        assert_eq!(cuda().called(), ["cuCtxGetCurrent", "cuLaunchKernel"]);
        assert_eq!(cuda().log()[1].argument("gridDimX"), 3);
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

#[test]
fn a_device_communicator_lets_go_of_streams_that_have_passed() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        for _ in 0..40 {
            let (stream, x) = (comm.device().stream()?, comm.device().zeros(2)?);
            stream.run(takes(&dev, 1.0, &x, &mut comm.device().zeros(2)?))?;
            comm.sync(&stream)?;
        }
        let opened = called("cuStreamCreate");
        assert!(opened < 20, "{opened} streams were opened");
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

/// Since then its stream has had more device communicators than it caches without a lock.
#[test]
fn a_device_communicator_ends_after_the_kernels_that_take_it() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        let mut comm = alone()?;
        let api = comm.device_api()?;
        let all = (0..12).map(|_| comm.dev_comm(&api, &Requirements::new()));
        let mut all = all.collect::<Result<Vec<_>>>()?;
        let (stream, x) = (comm.device().stream()?, comm.device().zeros(2)?);
        let (mut y, held) = (comm.device().zeros(2)?, handle(&stream)?);
        for dev in all.iter().chain(&all) {
            stream.run(takes(dev, 1.0, &x, &mut y))?;
        }
        comm.sync(&stream)?;
        let ended = || count(ncclDevCommDestroy);
        let asked = || cuda().called().iter().filter(|name| **name == "cuEventQuery").count();
        let released = || {
            until("it asks again and again", || asked() > 3);
            let before = ended();
            cuda().release(held);
            before
        };
        // By closing it.
        cuda().hold(held);
        stream.run(takes(&all[0], 1.0, &x, &mut y))?;
        clear();
        let before = thread::scope(|scope| {
            let released = scope.spawn(released);
            comm.close_dev_comm(all.remove(0))?;
            Ok::<_, Error>(released.join().expect("no panic"))
        })?;
        assert_eq!((before, ended()), (0, 1));
        // By the end of its communicator.
        cuda().hold(held);
        stream.run(takes(&all[0], 1.0, &x, &mut y))?;
        clear();
        let before = thread::scope(|scope| {
            let released = scope.spawn(released);
            comm.finish()?;
            Ok::<_, Error>(released.join().expect("no panic"))
        })?;
        assert_eq!((before, ended()), (0, 11));
        Ok(())
    });
}
