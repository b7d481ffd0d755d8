//! Kernels: computation declared once that runs on every device.
//!
//! [`kernel!`](crate::kernel!) declares a kernel: its parameters, a body in CUDA C++ for GPUs, a
//! body in Rust for the host. Calling it like a function gives a [`Launch`], and [`Stream::run`]
//! enqueues that on a stream.
//!
//! In the types: the device and the element type of each argument, whether it is read or written,
//! and which devices a kernel has a body for. *Not* in the types: what the CUDA body does, which
//! makes it `unsafe`; and lengths, which every body receives.

mod argument;
mod launch;
mod peers;

#[doc(hidden)]
pub use argument::{ReadAs, RunsWithMemoryOf, SliceOf, Value, WrittenAs, value};
// Nobody else can implement it: what a launch shows of its arguments is taken at its word.
use argument::ArgumentsOn;
#[doc(hidden)]
pub use launch::Declared;
pub use launch::{Launch, RunsOn};
#[doc(hidden)]
pub use peers::{
    BarrierIn, BarrierOf, CommunicatesFor, Dev, HeldBarrier, HeldDev, PartOf, Peers, WindowOf,
    barrier, dev_comm, window, window_mut, window_slice,
};
#[doc(hidden)]
pub use typed_nccl_macros::kernel as declare;

pub use crate::compute::Scalar;
#[doc(hidden)]
pub use crate::compute::{
    Argument, Arguments, Extents, Grid, HeldArgument, HeldArguments, HeldMemory, HeldWindow,
    Kernel, Parameter, Shown, SliceLen, Source, SourceKind, Type, Views,
};

use std::marker::PhantomData;
use std::sync::Arc;

use crate::backend::{Launches, Streams};
use crate::communicator::PerCall;
use crate::device_comm::Entered;
use crate::error::Site;
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::stream::StreamAccess;
use crate::{Capture, Communicator, Device, Group, Result, State, Stream, World, record};

/// Declares a kernel, for every device or for some.
///
#[doc = include_str!("language.md")]
#[macro_export]
macro_rules! kernel {
    // Passes `$crate` on, since a program may rename this crate.
    ($($tokens:tt)*) => { $crate::kernel::declare! { ($crate) $($tokens)* } };
}

#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use crate::Cuda as Gpu;

/// Stands for GPUs in a build without CUDA.
#[cfg(not(feature = "cuda"))]
#[doc(hidden)]
#[derive(Debug)]
pub struct Gpu<T>(PhantomData<T>);

/// Carries the message that streams run kernels. Never implemented.
#[diagnostic::on_unimplemented(
    message = "a kernel runs on a stream, and this is a `{Self}`",
    label = "kernels do not run here",
    note = "`comm.stream().run(..)` runs it after what the communicator has enqueued; a group has operations of NCCL alone, and the kernel runs before or after it"
)]
pub trait RunsKernels {
    #[doc(hidden)]
    fn never(&self) -> !;
}

/// # Kernels of your own
impl<W: World, S: State> Communicator<W, S> {
    /// Not available here: run kernels on a stream, such as [`stream`](Self::stream).
    ///
    /// # Errors
    /// None: it does not compile.
    pub fn run<K, A>(&self, _launch: Launch<K, A, W::Device>) -> Result<()>
    where
        Self: RunsKernels,
    {
        self.never()
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Not available here: run kernels on a stream.
    ///
    /// # Errors
    /// None: it does not compile.
    pub fn run<K, A>(&mut self, _launch: Launch<K, A, W::Device>) -> Result<()>
    where
        Self: RunsKernels,
    {
        self.never()
    }
}

/// Arguments, viewed as the memory that a launch uses.
struct Used<'a, D, A>(&'a A, PhantomData<D>);

impl<D: Device, A: ArgumentsOn<D>> Uses<D::Backend> for Used<'_, D, A> {
    fn each(&self, mut each: impl FnMut(&Order<D::Backend>, bool) -> Result<()>) -> Result<()> {
        self.0.used(|(allocation, write)| each(&allocation.order, write))
    }
}

impl<D: Device> Stream<D> {
    /// Enqueues a kernel in stream order, after earlier uses of its memory. The host does not wait.
    ///
    /// ```
    /// use typed_nccl::{Buffer, Device, Host, Result, Stream, kernel};
    ///
    /// kernel! {
    ///     /// `y += a * x`, element by element.
    ///     pub fn axpy(a: f32, x: &[f32], y: &mut [f32]);
    ///     // SAFETY: it stays below both lengths.
    ///     unsafe cuda r#"
    ///         size_t stride = (size_t) gridDim.x * blockDim.x;
    ///         for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < y_len && i < x_len; i += stride)
    ///             y[i] += a * x[i];
    ///     "#;
    ///     host {
    ///         for (y, x) in y.iter_mut().zip(x) {
    ///             *y += a * x;
    ///         }
    ///     }
    /// }
    ///
    /// fn twice<D: Device>(stream: &Stream<D>, x: &Buffer<f32, D>, y: &mut Buffer<f32, D>) -> Result<()> {
    ///     stream.run(axpy(1.0, x, y))?;
    ///     stream.run(axpy(1.0, x, y))
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let (x, mut y) = (host.from_slice(&[1.0, 2.0])?, host.from_slice(&[0.5, 0.5])?);
    /// twice(&host.stream()?, &x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [2.5, 4.5]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On a GPU, the first run of a kernel compiles it, which takes a fraction of a second, and
    /// loads it, for which CUDA may wait for work on that GPU. Where such work waits for this
    /// thread, run the kernel once beforehand. On the host, the body runs later on another thread.
    /// It may not wait for a stream or a communicator, and a panic in it surfaces at the next host
    /// wait as [`Error::Panicked`](crate::Error::Panicked).
    ///
    /// # Errors
    /// [`Error::BadKernel`](crate::Error::BadKernel): it does not compile, does not fit the GPU, or
    /// there is no compiler for it; nothing is enqueued then. An argument on another device; a view
    /// past the end of its buffer; an error that CUDA reports.
    #[track_caller]
    pub fn run<K: RunsOn<D>, A: ArgumentsOn<D>>(&self, launch: Launch<K, A, D>) -> Result<()> {
        let site = Site::caller();
        let raw = self.core.raw();
        let Launch { arguments, grid, kernel, .. } = launch;
        let access = StreamAccess::new(&self.core, site);
        let checked = arguments.check(&access)?;
        // Compiling may take long, so it happens before anything is kept from ending.
        let loaded = <D::Backend as Launches>::load(raw, kernel, site)?;
        let mut entered = Entered::default();
        arguments.enter(&access, &mut entered)?;
        let _booking = Booking::new(&self.core, Used(&arguments, PhantomData))?;
        let _recorded = record::work(&self.core, kernel.name, site);
        // SAFETY: the arguments were checked, and their uses are ordered.
        unsafe { <D::Backend as Launches>::run(raw, site, (kernel, loaded), grid, checked) }
    }
}

type Back<W> = <<W as World>::Device as Device>::Backend;
type Memory<W> = Arc<Allocation<Back<W>>>;

impl<W: World> Capture<'_, W> {
    /// Records a kernel, as [`Stream::run`] enqueues one. Each launch of the graph runs it on the
    /// same memory, with the values passed here.
    ///
    /// # Errors
    /// Those of [`Stream::run`]; a device communicator of another communicator. No graph is made
    /// then.
    #[track_caller]
    pub fn run<K: RunsOn<W::Device>, A: ArgumentsOn<W::Device>>(
        &self,
        launch: Launch<K, A, W::Device>,
    ) -> Result<()> {
        let site = Site::caller();
        let core = &self.stream.core;
        let Launch { arguments, grid, kernel, .. } = launch;
        let access = StreamAccess::new(core, site);
        let mut entered = Entered::default();
        let may_enter = arguments.enter(&access, &mut entered);
        self.own(may_enter, &entered)?;
        let held = self.checked(arguments.check(&access))?.hold();
        let loaded = self.checked(<Back<W> as Launches>::load(core.raw(), kernel, site))?;
        let mut uses: Vec<(Memory<W>, bool)> = entered.named().collect();
        let _ = arguments.used(|(allocation, write)| {
            uses.push((allocation.clone(), write));
            Ok(())
        });
        let held = Arc::new(held);
        let enqueue = move |stream: &<Back<W> as Streams>::Stream| {
            // SAFETY: the arguments were checked; each launch orders their uses.
            unsafe {
                <Back<W> as Launches>::run(stream, site, (kernel, loaded), grid, held.clone())
            }
        };
        self.record("run", uses, Box::new(enqueue), site)
    }
}
