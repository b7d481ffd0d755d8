//! What a typed launch of a kernel costs the host beside `cuLaunchKernel` alone, on one GPU:
//! `cargo bench -p benches --bench gpu_kernel`.
//!
//! The kernels do nothing and are PTX. Each is launched from both sides, the same text with the
//! same arguments on the same stream: with a device communicator among them, where there is one,
//! and without. The direct side does what C++ does: it has the arguments at hand, and passes their
//! places. Both sides in turn, the best of several rounds.
//!
//! `cargo run -p xtask -- cost` counts the typed side's instructions, against the doubles: it runs
//! `gpu_kernel KERNEL N` under callgrind.

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::mpsc::channel;
use std::time::Instant;

use cudarc::driver::sys;
use typed_nccl::kernel::Declared;
use typed_nccl::{Buffer, Communicator, Cuda, DevComm, Error, Requirements, Result, Seat, kernel};

/// How many bytes a device communicator has in NCCL 2.31 and 2.32: the kernel's text says it.
const BYTES: usize = 248;
const LAUNCHES: u32 = 20_000;
const ROUNDS: usize = 30;

kernel! {
    #[launch(threads = 32, blocks = 1)]
    fn with_dev(dev: &DevComm, a: f32, x: &[f32], y: &mut [f32]);
    // SAFETY: it does nothing.
    unsafe ptx r#"
        .version 7.0
        .target sm_70
        .address_size 64
        .visible .entry with_dev(
            .param .align 8 .b8 dev[248], .param .f32 a,
            .param .u64 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len
        )
        { ret; }
    "#;
}

kernel! {
    #[launch(threads = 32, blocks = 1)]
    fn without(a: f32, x: &[f32], y: &mut [f32]);
    // SAFETY: it does nothing.
    unsafe ptx r#"
        .version 7.0
        .target sm_70
        .address_size 64
        .visible .entry without(
            .param .f32 a, .param .u64 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len
        )
        { ret; }
    "#;
}

/// What C++ does.
struct Direct {
    function: sys::CUfunction,
    stream: sys::CUstream,
    dev: Vec<u64>,
    a: f32,
    x: (u64, u64),
    y: (u64, u64),
}

// SAFETY: addresses and handles, which are bound to no thread.
unsafe impl Send for Direct {}

impl Direct {
    /// Loads a kernel for the current GPU.
    fn load<K: Declared>(
        stream: *mut c_void,
        dev: &[u8],
        x: (u64, u64),
        y: (u64, u64),
    ) -> Option<Self> {
        let text = CString::new(K::KERNEL.cuda.as_ref()?.text).ok()?;
        let name = CString::new(K::KERNEL.name).ok()?;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: `module` is a place for a handle; PTX that ends with a zero.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
        loaded.result().ok()?;
        // SAFETY: `function` is a place for a handle; the module is loaded, and the name ends with
        // a zero.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) };
        found.result().ok()?;
        let words =
            dev.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        Some(Self { function, stream: stream.cast(), dev: words.collect(), a: 2.0, x, y })
    }

    #[inline(never)]
    fn launch(&mut self) -> sys::CUresult {
        let Self { function, stream, dev, a, x, y } = self;
        let mut places: [*mut c_void; 6] = [
            dev.as_mut_ptr().cast(),
            (&raw mut *a).cast(),
            (&raw mut x.0).cast(),
            (&raw mut x.1).cast(),
            (&raw mut y.0).cast(),
            (&raw mut y.1).cast(),
        ];
        // Without a device communicator the first place is not there.
        let places = &mut places[usize::from(dev.is_empty())..];
        let (places, extra) = (places.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the kernel's arguments, which outlive the call; it does nothing with them.
        unsafe { sys::cuLaunchKernel(*function, 1, 1, 1, 32, 1, 1, 0, *stream, places, extra) }
    }
}

/// A typed launch.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn typed_launch(comm: &Gpu, x: &Buffer<f32, Cuda>, y: &mut Buffer<f32, Cuda>) -> Result<(), Error> {
    comm.stream().run(without(2.0, x, y))
}

/// The same with a device communicator.
// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn typed_launch_with_dev(
    comm: &Gpu,
    dev: &DevComm<Cuda>,
    x: &Buffer<f32, Cuda>,
    y: &mut Buffer<f32, Cuda>,
) -> Result<(), Error> {
    comm.stream().run(with_dev(dev, 2.0, x, y))
}

/// How many launches of each side, and how often.
struct Turns {
    typed: u32,
    direct: u32,
    rounds: usize,
}

impl Turns {
    /// As the program was asked for a kernel.
    fn of(kernel: &str) -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, .., "--bench"] => Self { typed: LAUNCHES, direct: LAUNCHES, rounds: ROUNDS },
            [_, counted, launches] => {
                let asked = launches.parse().ok().filter(|_| counted == kernel);
                Self { typed: asked.unwrap_or(1), direct: 1, rounds: 1 }
            }
            _ => Self { typed: 100, direct: 100, rounds: 1 },
        }
    }
}

type Gpu = Communicator<Cuda>;

/// Both sides in turn: nanoseconds of a launch.
fn compare<K: Declared>(
    comm: &Gpu,
    (dev, x, y): (&[u8], &Buffer<f32, Cuda>, &mut Buffer<f32, Cuda>),
    mut typed: impl FnMut(&mut Buffer<f32, Cuda>) -> Result<()>,
) -> Result<Option<[f64; 2]>> {
    let (sender, receiver) = channel();
    let dev = dev.to_vec();
    comm.stream().launch((x, &mut *y), move |(x, mut y), stream| {
        let (x, y) = ((x.as_ptr() as u64, x.len() as u64), (y.as_mut_ptr() as u64, y.len() as u64));
        let _ = sender.send(Direct::load::<K>(stream.as_ptr(), &dev, x, y));
    })?;
    let Ok(Some(mut direct)) = receiver.recv() else { return Ok(None) };
    typed(y)?;
    let mut best = [f64::INFINITY; 2];
    let turns = Turns::of(K::KERNEL.name);
    for _ in 0..turns.rounds {
        let start = Instant::now();
        for _ in 0..turns.typed {
            typed(black_box(&mut *y))?;
        }
        best[0] = best[0].min(start.elapsed().as_nanos() as f64 / f64::from(turns.typed));
        comm.sync(comm.stream())?;
        let start = Instant::now();
        for _ in 0..turns.direct {
            if black_box(&mut direct).launch() != sys::CUresult::CUDA_SUCCESS {
                return Ok(None);
            }
        }
        best[1] = best[1].min(start.elapsed().as_nanos() as f64 / f64::from(turns.direct));
        comm.sync(comm.stream())?;
    }
    Ok(Some(best))
}

fn tell(what: &str, found: Option<[f64; 2]>) {
    match found {
        Some([ours, raw]) => {
            println!(
                "{what}: typed {ours:8.1} ns, direct {raw:8.1} ns, typed / direct {:.3}",
                ours / raw
            );
        }
        None => println!("SKIPPED: {what}: CUDA's driver did not take the kernel"),
    }
}

fn main() -> Result<()> {
    match Cuda::count() {
        Ok(0) => {
            println!("SKIPPED: no GPU");
            return Ok(());
        }
        Ok(_) => {}
        Err(error) => {
            println!("SKIPPED: {error}");
            return Ok(());
        }
    }
    let mut comm: Gpu = Seat::local(1).remove(0).init(Cuda::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(1024)?, comm.device().zeros::<f32>(1024)?);
    let plain = compare::<without>(&comm, (&[], &x, &mut y), |y| typed_launch(&comm, &x, y))?;
    tell("a launch of two slices and a scalar", plain);
    match device_comm(&mut comm) {
        Ok(dev) if dev.size_in_bytes() == BYTES => {
            let both = compare::<with_dev>(&comm, (dev.bytes()?, &x, &mut y), |y| {
                typed_launch_with_dev(&comm, &dev, &x, y)
            })?;
            tell("the same with a device communicator", both);
            comm.close_dev_comm(dev)?;
        }
        Ok(dev) => println!("SKIPPED: a device communicator of {} bytes", dev.size_in_bytes()),
        Err(error) => println!("SKIPPED: {error}"),
    }
    comm.finish()
}

fn device_comm(comm: &mut Gpu) -> Result<DevComm<Cuda>, Error> {
    let api = comm.device_api()?;
    comm.dev_comm(&api, &Requirements::new().lsa_barriers(1))
}
