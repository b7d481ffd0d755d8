//! Launches: a kernel with its arguments.

use std::marker::PhantomData;

use crate::compute::{Grid, Kernel};
use crate::derived::debug;
use crate::{Device, Operands};

/// What [`kernel!`](crate::kernel!) declares. It promises nothing: [`Launch::new`] does.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kernel",
    label = "no kernel",
    note = "`kernel! {{ .. }}` declares one"
)]
pub trait Declared {
    /// The kernel.
    const KERNEL: &'static Kernel;
}

/// A kernel that has a body for `D`.
///
/// ```
/// # use typed_nccl::{Buffer, Host, Result, Stream, kernel, kernel::RunsOn};
/// kernel! {
///     /// `x = value`
///     fn set(value: f32, x: &mut [f32]);
///     host { x.fill(value); }
/// }
/// fn runs_on_the_host<K: RunsOn<Host>, A>(_: &kernel::Launch<K, A, Host>) {}
///
/// let mut x = Host::local()?.zeros(2)?;
/// let launch = set(1.0, &mut x);
/// runs_on_the_host(&launch);
/// Host::local()?.stream()?.run(launch)?;
/// assert_eq!(x.to_vec()?, [1.0, 1.0]);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the kernel `{Self}` has no body for `{D}`",
    label = "this stream is on a device that the kernel is not written for",
    note = "`host {{ .. }}` in its `kernel!` is the body for `Host`, `unsafe cuda r#\"..\"#;` the one for `Cuda`; a function generic over the device needs both"
)]
pub trait RunsOn<D: Device> {}

/// A kernel with its arguments on `D`, which a stream [runs](crate::Stream::run).
///
/// See the examples of [`RunsOn`] and of [`kernel!`](crate::kernel!).
#[must_use = "a kernel runs when a stream runs it: `stream.run(..)`"]
pub struct Launch<K, A, D> {
    pub(crate) arguments: A,
    pub(crate) grid: Grid,
    // No bounds here: a missing one is reported where the kernel is called, not again where it
    // runs.
    pub(crate) kernel: &'static Kernel,
    types: PhantomData<fn() -> (K, D)>,
}

impl<K, A, D> Launch<K, A, D> {
    /// A launch on any device that the kernel has a body for.
    ///
    /// # Safety
    /// The kernel's bodies take what its parameters are, and the arguments are those, one for each,
    /// in their order. Whatever their lengths, the body for GPUs stays within its slices and writes
    /// only those that its parameters write.
    #[doc(hidden)]
    pub unsafe fn new(arguments: A) -> Self
    where
        K: Declared,
    {
        Self { arguments, grid: Grid::default(), kernel: K::KERNEL, types: PhantomData }
    }

    /// A launch on the host, where the body finds out what its arguments are. Nothing is promised,
    /// so a body for GPUs is left out.
    #[doc(hidden)]
    pub fn on_host(arguments: A) -> Self
    where
        K: Declared,
    {
        let kernel = const { &Kernel { cuda: None, ..*K::KERNEL } };
        Self { arguments, grid: Grid::default(), kernel, types: PhantomData }
    }

    /// On GPUs: so many blocks of so many threads, instead of what the kernel declares.
    pub fn grid(mut self, blocks: u32, threads: u32) -> Self {
        self.grid.size = Some((blocks, threads));
        self
    }

    /// On GPUs, gives each block this many bytes of dynamic shared memory (`extern __shared__`).
    pub fn shared_memory(mut self, bytes: u32) -> Self {
        self.grid.shared = bytes;
        self
    }
}

debug!([K, A, D] Launch<K, A, D>, self => "a launch of `{}`", self.kernel.name);

// Implemented so that passing one to `launch` gives a single error: `OperandsOn` names `run`.
#[diagnostic::do_not_recommend]
impl<K, A, D> Operands for Launch<K, A, D> {
    type Views<'v> = ();
    type Held = ();

    unsafe fn views(_: &()) {}
}
