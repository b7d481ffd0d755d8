//! This library's own kernels: their PTX, their arguments, and launches.
//!
//! The source is `kernels.cu`, which defines the same structures and numbers. All kernels of a GPU
//! are loaded at once, before any of them runs: loading can wait for running work, which may wait
//! for a rank that loads.

mod stop;

pub(crate) use stop::Stop;

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;
use std::thread;

use cudarc::driver::{DriverError, result, sys};
use miniz_oxide::inflate;

use super::module::{self, Handle, Lazy};
use super::{CudaStream, Gpu, driver};
use crate::backend::MOST_PIECES;
use crate::{DType, Result};

/// The most ranks.
pub(crate) const RANKS: usize = 32;

/// Threads per block.
pub(crate) const THREADS: usize = 512;

/// The most blocks that send lines.
pub(crate) const BLOCKS: usize = 32;

/// The most blocks that send lines without flags.
pub(crate) const PUSHES: usize = 64;

/// Lines that a thread handles at a time.
const BATCH: usize = 4;

/// The oldest driver that accepts the PTX: CUDA 12.4.
pub(crate) const DRIVER: i32 = 12040;

/// The memory that a rank provides for data from the others.
pub(crate) const fn staging(ranks: usize) -> usize {
    let slots = (BLOCKS * 6 + PUSHES * 2) * BATCH * THREADS * 16;
    (slots + (BLOCKS + PUSHES) * 8) * ranks
}

/// Index of the count that a starting kernel checks for the end of the communicator.
const OVER: usize = 2 * BLOCKS + PUSHES;

/// Index of the first count by which blocks report that they run: after the counts of rows normed
/// together, and their sums.
const RUNNING: usize = OVER + 2 + 5 * PUSHES;

/// The size of the counts in bytes.
pub(crate) const COUNTS: usize = (RUNNING + PUSHES) * 8;

/// An operation.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Op {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) bytes: u32,
    pub(crate) to: u16,
    pub(crate) from: u16,
}

/// The argument of a launch.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Arguments {
    /// Each rank's staging memory, as addressed by this rank.
    pub(crate) staging: [u64; RANKS],
    pub(crate) batches: u64,
    /// The address of a host word.
    pub(crate) stop: u64,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Number of operations.
    pub(crate) count: u32,
    /// Number of groups of 32 lines over all operations.
    pub(crate) groups: u32,
    /// 0 sum, 1 product, 2 minimum, 3 maximum.
    pub(crate) reduction: u32,
    /// Divides the result.
    pub(crate) divisor: u32,
    /// The first group of each operation.
    pub(crate) starts: [u32; MOST_PIECES],
    pub(crate) ops: [Op; MOST_PIECES],
}

const _: () = assert!(size_of::<Op>() == 24 && size_of::<Arguments>() == 2984);

impl Gpu {
    /// Makes kernels with these counts that begin later touch nothing.
    ///
    /// # Safety
    /// The counts are alive.
    pub(crate) unsafe fn end_kernels(&'static self, counts: u64) -> Result<()> {
        let over = 1_u64;
        self.now("ending kernels", |stream| {
            let from = ptr::from_ref(&over).cast();
            // SAFETY: the caller's promise; `now` waits until `over` was read.
            unsafe { sys::cuMemcpyHtoDAsync_v2(counts + OVER as u64 * 8, from, 8, stream) }.result()
        })
    }

    /// Whether a block of a kernel with these counts is running.
    ///
    /// # Safety
    /// The counts are alive.
    pub(crate) unsafe fn kernels_run(&'static self, counts: u64) -> Result<bool> {
        let mut running = [0_u64; PUSHES];
        self.now("looking for kernels that run", |stream| {
            let to = running.as_mut_ptr().cast();
            let size = size_of::<[u64; PUSHES]>();
            // SAFETY: the caller's promise; `now` waits until `running` was written.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, counts + RUNNING as u64 * 8, size, stream) }
                .result()
        })?;
        Ok(running.iter().any(|block| *block != 0))
    }
}

/// The second argument of a launch that norms rows.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Norm {
    pub(crate) weight: u64,
    pub(crate) width: u32,
    pub(crate) rows: u32,
    /// Blocks that share a row.
    pub(crate) parts: u32,
    pub(crate) epsilon: f32,
}

/// A kernel, of any element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    OneShot,
    TwoShot,
    Push,
    Exchange,
    RmsNorm,
    PushRmsNorm,
}

const FUNCTIONS: usize = Function::ALL.len();

impl Function {
    const ALL: [Self; 6] = [
        Self::OneShot,
        Self::TwoShot,
        Self::Push,
        Self::Exchange,
        Self::RmsNorm,
        Self::PushRmsNorm,
    ];

    const fn name(self) -> &'static CStr {
        match self {
            Self::OneShot => c"one_shot",
            Self::TwoShot => c"two_shot",
            Self::Push => c"push",
            Self::Exchange => c"exchange",
            Self::RmsNorm => c"rms_norm",
            Self::PushRmsNorm => c"push_rms_norm",
        }
    }

    fn is_of(self, dtype: DType) -> bool {
        !matches!(self, Self::RmsNorm | Self::PushRmsNorm) || dtype.is_float()
    }
}

/// Each element type's PTX, which `xtask ptx` compresses.
const PTX: [(DType, &[u8]); 10] = [
    (DType::I8, include_bytes!("ptx/i8.ptx.z")),
    (DType::U8, include_bytes!("ptx/u8.ptx.z")),
    (DType::I32, include_bytes!("ptx/i32.ptx.z")),
    (DType::U32, include_bytes!("ptx/u32.ptx.z")),
    (DType::I64, include_bytes!("ptx/i64.ptx.z")),
    (DType::U64, include_bytes!("ptx/u64.ptx.z")),
    (DType::F16, include_bytes!("ptx/f16.ptx.z")),
    (DType::F32, include_bytes!("ptx/f32.ptx.z")),
    (DType::F64, include_bytes!("ptx/f64.ptx.z")),
    (DType::Bf16, include_bytes!("ptx/bf16.ptx.z")),
];

/// Decompresses the text. If it is damaged the text is empty, which every driver refuses.
fn text(compressed: &[u8]) -> CString {
    let text = inflate::decompress_to_vec_zlib(compressed).unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// A type of the same size that has kernels.
pub(crate) fn moves(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::F16,
        4 => DType::F32,
        _ => DType::F64,
    }
}

/// The kernels of a GPU; never unloaded.
pub(super) type Kernels = Lazy<Loaded>;

/// By element type and function.
pub(crate) struct Loaded([[Option<Handle>; FUNCTIONS]; PTX.len()]);

impl Gpu {
    /// This library's kernels, loaded on first use.
    pub(crate) fn kernels(&'static self) -> Result<&'static Loaded> {
        self.kernels.get(|| {
            // The driver takes a while to compile them: use a thread for each.
            let modules = thread::scope(|threads| {
                let load = |(dtype, ptx)| threads.spawn(move || load(self, dtype, &text(ptx)));
                let loading: Vec<_> = PTX.map(load).into();
                let joined = loading.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                });
                joined.collect::<Result<Vec<_>>>()
            })?;
            let mut loaded = [[None; FUNCTIONS]; PTX.len()];
            loaded.iter_mut().zip(modules).for_each(|(place, module)| *place = module);
            Ok(Loaded(loaded))
        })
    }

    /// The number of multiprocessors.
    pub(crate) fn multiprocessors(&self) -> u32 {
        let number = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        self.context().attribute(number).ok().and_then(|n| n.try_into().ok()).unwrap_or(0)
    }

    /// The major number of its compute capability.
    pub(crate) fn generation(&self) -> i32 {
        let major = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        self.context().attribute(major).unwrap_or(0)
    }
}

fn load(gpu: &Gpu, dtype: DType, text: &CStr) -> Result<[Option<Handle>; FUNCTIONS]> {
    let functions = Function::ALL.into_iter().filter(|function| function.is_of(dtype));
    let names = functions.clone().map(Function::name);
    let handles = module::load(gpu, text, names, "loading kernels")?;
    let mut all = [None; FUNCTIONS];
    functions.zip(handles).for_each(|(function, handle)| all[function as usize] = Some(handle));
    Ok(all)
}

impl Loaded {
    fn handle(&self, function: Function, dtype: DType) -> Option<Handle> {
        let of = PTX.iter().position(|(known, _)| *known == dtype)?;
        self.0[of][function as usize]
    }
}

/// Enqueues a launch of this many blocks.
///
/// # Safety
/// The arguments are the kernel's: their memory lives until the launch is over, other uses are
/// ordered before and after, and the other ranks make the same launch.
pub(crate) unsafe fn launch(
    stream: &Arc<CudaStream>,
    (function, dtype): (Function, DType),
    blocks: u32,
    arguments: &Arguments,
    norm: Norm,
) -> Result<()> {
    let gpu = stream.gpu();
    gpu.bind()?;
    let failed = |error| driver::failed("launching a kernel", gpu.ordinal(), error);
    let Some(Handle(kernel)) = gpu.kernels()?.handle(function, dtype) else {
        return Err(failed(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND)));
    };
    // Only kernels that norm have a second argument; the driver ignores it for the others.
    let mut all: [*mut c_void; 2] =
        [ptr::from_ref(arguments).cast_mut().cast(), ptr::from_ref(&norm).cast_mut().cast()];
    let (grid, block) = ((blocks, 1, 1), (THREADS as u32, 1, 1));
    // SAFETY: the driver reads as many arguments as the kernel has, which outlive the call; the
    // rest is the caller's promise.
    unsafe { result::launch_kernel(kernel, grid, block, 0, stream.raw(), &mut all) }.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::{Function, PTX, text};

    #[test]
    fn each_text_has_the_kernels_of_its_type() {
        for (number, (dtype, compressed)) in PTX.into_iter().enumerate() {
            let text = text(compressed).into_string().expect("ASCII");
            let first = text.lines().next().unwrap_or_default();
            assert!(first.ends_with(&format!(". Element {number}.")), "{dtype}: {first}");
            for function in Function::ALL {
                let entry = format!(".entry {}(", function.name().to_string_lossy());
                assert_eq!(text.contains(&entry), function.is_of(dtype), "{dtype}: {entry}");
            }
        }
    }
}
