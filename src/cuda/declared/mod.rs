//! Kernels that programs declare: compiled on first use, loaded once per GPU.

mod cache;
mod include;
mod nvrtc;
#[cfg(test)]
mod tests;
mod text;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, LazyLock, OnceLock};

use cudarc::driver::sys;

use super::module::{Handle, Module};
use super::{CudaBackend, CudaStream, Gpu, driver};
use crate::Result;
use crate::compute::{ARGUMENTS, Arguments, Extents, Grid, Kernel, Reach, Shown, SourceKind, View};
use crate::error::{BadKernel, Error, KernelFault, Site};
use crate::lock::Mutex;
use cache::Key;
use nvrtc::Nvrtc;

/// The kernels that a GPU has loaded, by declaration; never unloaded. Lookup takes no lock.
#[derive(Default)]
pub(super) struct DeclaredKernels {
    lists: [Slot; LISTS],
    /// Serialises loading.
    loading: Mutex<()>,
}

/// Enough lists that most hold at most one kernel.
const LISTS: usize = 32;

/// A slot of a list.
type Slot = OnceLock<Box<Entry>>;

struct Entry {
    kernel: &'static Kernel,
    loaded: Handle,
    next: Slot,
}

impl DeclaredKernels {
    /// A kernel, or the slot for it.
    #[inline]
    fn find(&self, kernel: &'static Kernel) -> Result<Handle, &Slot> {
        let mut place = &self.lists[ptr::from_ref(kernel).addr() / size_of::<Kernel>() % LISTS];
        while let Some(entry) = place.get() {
            if ptr::eq(entry.kernel, kernel) {
                return Ok(entry.loaded);
            }
            place = &entry.next;
        }
        Err(place)
    }
}

/// The kernel on a stream's GPU: compiles and loads it the first time.
#[inline]
pub(super) fn load(stream: &CudaStream, kernel: &'static Kernel, site: Site) -> Result<Handle> {
    let gpu = stream.gpu();
    gpu.declared.find(kernel).or_else(|_| load_first(gpu, kernel, site))
}

#[cold]
fn load_first(gpu: &Gpu, kernel: &'static Kernel, site: Site) -> Result<Handle> {
    let _loading = gpu.declared.loading.lock();
    // Another thread may have loaded it meanwhile.
    let place = match gpu.declared.find(kernel) {
        Ok(loaded) => return Ok(loaded),
        Err(place) => place,
    };
    let bad = |fault| Error::from(BadKernel { kernel: kernel.name, fault, site });
    let loaded = code(gpu, kernel).and_then(|code| module(gpu, kernel, &code)).map_err(bad)?;
    place.get_or_init(|| Box::new(Entry { kernel, loaded, next: Slot::new() }));
    Ok(loaded)
}

/// The image for the driver: machine code or PTX, ending with a zero.
fn code(gpu: &Gpu, kernel: &Kernel) -> Result<Arc<Vec<u8>>, KernelFault> {
    let found = gpu.architecture();
    if kernel.needs > found {
        let (needs, found) = (format!("sm_{}", kernel.needs), format!("sm_{found}"));
        return Err(KernelFault::Architecture { needs, found });
    }
    match &kernel.cuda {
        Some(source) if source.kind == SourceKind::Ptx => Ok(Arc::new(ended(source.text.into()))),
        Some(source) => match text::plain(kernel, source) {
            Some(dtype) => Err(KernelFault::PlainData { dtype }),
            None => compiled(found, kernel, &text::whole(kernel, source)),
        },
        // A kernel without a body for GPUs does not compile where it is run, unless the program
        // claims that it has one.
        None => Ok(Arc::new(ended(Vec::new()))),
    }
}

/// The compiled code: compiled now, earlier in this process, or by an earlier process.
fn compiled(found: u32, kernel: &Kernel, text: &str) -> Result<Arc<Vec<u8>>, KernelFault> {
    /// By text and architecture: identical GPUs of a process share one compilation.
    static COMPILED: LazyLock<Mutex<HashMap<(String, u32), Arc<Vec<u8>>>>> =
        LazyLock::new(Mutex::default);

    // One at a time: threads that ask for the same one wait for the first.
    let mut all = COMPILED.lock();
    let known = (text.to_owned(), found);
    if let Some(code) = all.get(&known) {
        return Ok(code.clone());
    }
    let nvrtc = Nvrtc::load().map_err(|tried| KernelFault::NoCompiler { tried })?;
    let architecture = architecture(nvrtc, found)?;
    let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
    let (mut folders, mut headers) = (include::cuda(nvrtc), Vec::new());
    let mut compiler = nvrtc.name();
    if text::communicates(kernel) {
        folders.push(include::nccl(&mut compiler)?);
        headers = include::stand_ins();
        // Functions in headers without an annotation are the device's.
        options.push("--device-as-default-execution-space".to_owned());
    }
    options.extend(folders.iter().map(|folder| format!("--include-path={}", folder.display())));
    let inputs = options.iter().map(String::as_bytes);
    let key = Key::of(inputs.chain([compiler.as_bytes(), text.as_bytes()]));
    let code = match key.read() {
        Some(code) => code,
        None => {
            let name = format!("{}.cu", kernel.name);
            let code = nvrtc
                .compile((&name, text), &headers, &options)
                .map_err(|log| KernelFault::DoesNotCompile { compiler, architecture, log })?;
            key.write(&code);
            code
        }
    };
    Ok(all.entry(known).or_insert_with(|| Arc::new(ended(code))).clone())
}

/// The architecture to compile for: the GPU's own, else the newest older one, whose PTX the driver
/// compiles.
fn architecture(nvrtc: &Nvrtc, found: u32) -> Result<String, KernelFault> {
    let known = &nvrtc.architectures;
    if known.is_empty() || known.contains(&found) {
        return Ok(format!("sm_{found}"));
    }
    let before = known.iter().filter(|known| **known < found).max();
    before.map(|before| format!("compute_{before}")).ok_or_else(|| {
        let oldest = known.iter().min().copied().unwrap_or_default();
        let (compiler, oldest) = (nvrtc.name(), format!("sm_{oldest}"));
        KernelFault::CompilerArchitecture { compiler, oldest, found: format!("sm_{found}") }
    })
}

fn ended(mut code: Vec<u8>) -> Vec<u8> {
    code.push(0);
    code
}

/// Loads code, and finds the kernel in it.
fn module(gpu: &Gpu, kernel: &Kernel, code: &[u8]) -> Result<Handle, KernelFault> {
    let failed = |error| {
        let (name, says) = driver::text(error);
        KernelFault::NotLoaded { name, says }
    };
    gpu.context().bind_to_thread().map_err(failed)?;
    // SAFETY: the image is machine code or PTX, and ends with a zero.
    let module = unsafe { Module::load(code) }.map_err(failed)?;
    // A Rust name contains no zero byte.
    module.kernel(&CString::new(kernel.name).unwrap_or_default()).map_err(failed)
}

/// Three for each possible argument.
const PLACES: usize = 3 * ARGUMENTS;

/// The parameters that a launch passes, as pointers to each.
struct Parameters<'v> {
    places: [MaybeUninit<*mut c_void>; PLACES],
    /// Storage for parameters that are numbers.
    numbers: &'v [Number; PLACES],
    count: usize,
    longest: usize,
}

/// Uninitialised, as are the pointers, since most kernels have few parameters.
type Number = Cell<MaybeUninit<u64>>;

impl<'v> Parameters<'v> {
    fn new(numbers: &'v [Number; PLACES]) -> Self {
        Self { places: [MaybeUninit::uninit(); PLACES], numbers, count: 0, longest: 0 }
    }

    fn push(&mut self, shown: Shown<'v, CudaBackend>) {
        match shown {
            Shown::Scalar { bytes, .. } => self.push_place(bytes.as_ptr().cast_mut().cast()),
            Shown::Memory { block, offset, len, .. } => {
                self.push_memory(block.at(offset).addr() as u64, len);
            }
            Shown::Comm(shared) => self.push_place(shared.bytes().as_ptr().cast_mut().cast()),
            Shown::Barrier { index, .. } => {
                self.push_place(ptr::from_ref(index).cast_mut().cast());
            }
            Shown::Windowed(window) if window.reach == Reach::Part => {
                self.push_number(window.peers);
                self.push_memory(window.start as u64, window.len);
            }
            Shown::Windowed(window) => self.push_memory(window.peers, window.len),
        }
    }

    fn push_place(&mut self, place: *mut c_void) {
        self.places[self.count].write(place);
        self.count += 1;
    }

    fn push_number(&mut self, number: u64) {
        let place = &self.numbers[self.count];
        place.set(MaybeUninit::new(number));
        self.push_place(place.as_ptr().cast());
    }

    fn push_memory(&mut self, address: u64, len: usize) {
        self.push_number(address);
        self.push_number(len as u64);
        self.longest = self.longest.max(len);
    }
}

/// Enqueues a kernel.
///
/// # Safety
/// As for [`Launches::run`](crate::backend::Launches::run).
pub(super) unsafe fn run(
    stream: &CudaStream,
    site: Site,
    (kernel, Handle(function)): (&'static Kernel, Handle),
    grid: Grid,
    arguments: &impl Arguments<CudaBackend>,
) -> Result<()> {
    let gpu = stream.gpu();
    let numbers = [const { Number::new(MaybeUninit::uninit()) }; PLACES];
    let mut parameters = Parameters::new(&numbers);
    arguments.each(|shown| parameters.push(shown));
    let (blocks, threads) = match (grid.size, kernel.blocks) {
        (Some((blocks, threads)), _) => (blocks as usize, threads),
        (None, Some(blocks)) => (blocks(extents(arguments)), kernel.threads),
        // Enough for the longest slice, with one thread per element.
        (None, None) => {
            (parameters.longest.div_ceil(kernel.threads as usize).max(1), kernel.threads)
        }
    };
    let count = u32::try_from(blocks).ok().filter(|blocks| (1..=MOST).contains(blocks));
    let Some(count) = count.filter(|_| (1..=1024).contains(&threads)) else {
        let fault = KernelFault::Grid { blocks, threads };
        return Err(BadKernel { kernel: kernel.name, fault, site }.into());
    };
    gpu.bind()?;
    if grid.shared > 48 << 10 {
        driver::allow_shared(function, grid.shared).map_err(|error| {
            driver::failed("giving a kernel shared memory", gpu.ordinal(), error)
        })?;
    }
    let (places, extra) = (parameters.places.as_mut_ptr().cast(), ptr::null_mut());
    // SAFETY: the parameters are those that the kernel declares, so all of their pointers are
    // written; they point into `numbers` and the arguments, which outlive the call. The rest is the
    // promise of the caller and of the kernel's author.
    let launched = unsafe {
        sys::cuLaunchKernel(
            function,
            count,
            1,
            1,
            threads,
            1,
            1,
            grid.shared,
            stream.raw(),
            places,
            extra,
        )
    };
    launched.result().map_err(|error| driver::failed("running a kernel", gpu.ordinal(), error))
}

/// The most blocks that a grid can have.
const MOST: u32 = i32::MAX.unsigned_abs();

/// The arguments, as a kernel's `blocks` sees them.
fn extents<'v>(arguments: &'v impl Arguments<CudaBackend>) -> Extents<'v> {
    let view = |shown| match shown {
        Shown::Scalar { bytes, cuda } => View::Scalar { bytes, cuda },
        Shown::Memory { len, dtype, write, .. } => {
            View::Memory { start: ptr::null_mut(), len, dtype, write }
        }
        Shown::Windowed(window) => View::Memory {
            start: ptr::null_mut(),
            len: window.len,
            dtype: window.dtype,
            write: window.reach == Reach::Written,
        },
        Shown::Comm(_) | Shown::Barrier { .. } => View::Nothing,
    };
    Extents::new(|push| arguments.each(|shown| push(view(shown))))
}
