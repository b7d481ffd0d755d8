//! Window kinds: what a window was registered for (NCCL's flags).

/// Registered as symmetric (`NCCL_WIN_COLL_SYMMETRIC`): puts, symmetric kernels, copy-engine
/// collectives. The default of `comm.window(len)` and `comm.register_window(buffer)`.
///
/// ```
/// # use typed_nccl::{Host, LocalOnly, Seat, Symmetric, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let puts: Window<f32, Host, Symmetric> = comm.window(4)?; // `Window<f32, Host>` for short
/// let memory = comm.device().nccl_zeros(4)?;
/// let collectives: Window<f32, Host, LocalOnly> = comm.register_window_as(memory, LocalOnly)?;
/// comm.put_signal(puts.slice(0..2), 0, puts.at(2))?; // `collectives.at(2)` would not compile
/// # comm.wait_signal(0)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Symmetric;

/// Symmetric, and strictly ordered (`NCCL_WIN_STRICT_ORDERING`), which device-side signals on its
/// addresses need.
///
/// ```
/// # use typed_nccl::{Host, Seat, SymmetricStrict, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let memory = comm.device().nccl_zeros(4)?;
/// let x: Window<f32, Host, SymmetricStrict> = comm.register_window_as(memory, SymmetricStrict)?;
/// assert!(x.flags().is::<SymmetricStrict>());
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SymmetricStrict;

/// Registered with NCCL's default flags, `NCCL_WIN_DEFAULT`: faster collectives on this memory, no puts.
///
/// See the example of [`Symmetric`].
#[derive(Clone, Copy, Debug)]
pub struct LocalOnly;

/// Registered for device-side network access only (`NCCL_WIN_GIN_ONLY`): no pointers to peers.
///
/// ```
/// # use typed_nccl::{GinOnly, Host, Seat, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let memory = comm.device().nccl_zeros(4)?;
/// let x: Window<f32, Host, GinOnly> = comm.register_window_as(memory, GinOnly)?;
/// assert!(x.flags().is::<GinOnly>());
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GinOnly;

/// Registered for counted writes (`NCCL_WIN_CFT_COUNTED`).
///
/// ```
/// # use typed_nccl::{CftCounted, Host, Seat, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let memory = comm.device().nccl_zeros(4)?;
/// let x: Window<f32, Host, CftCounted> = comm.register_window_as(memory, CftCounted)?;
/// assert!(x.flags().is::<CftCounted>());
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CftCounted;

/// Registered with these flags of NCCL's (`NCCL_WIN_..`), in any combination: 1 symmetric, 2
/// strictly ordered, 4 for device-side network access only, 8 counted writes.
///
/// ```
/// use typed_nccl::{Flagged, Symmetric, WindowKind};
///
/// const STRICT: u32 = 2;
/// assert_eq!(Flagged::<{ Symmetric::BITS | STRICT }>::BITS, 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Flagged<const BITS: u32>;

/// A kind of window. Sealed.
///
/// See the example of [`Flagged`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of window",
    note = "they are `Symmetric`, `SymmetricStrict`, `LocalOnly`, `GinOnly`, `CftCounted`, and `Flagged<BITS>` for any flags below 16"
)]
pub trait WindowKind: sealed::Sealed + 'static {
    /// NCCL's flags.
    const BITS: u32;
    /// The kind's name in messages.
    const NAME: &'static str;
}

/// A window whose memory puts may read.
///
/// ```
/// # use typed_nccl::{Communicator, Host, Result, RmaSource, RmaTarget, Seat, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn put<S: RmaSource, T: RmaTarget>(
///     comm: &Communicator<Host>,
///     source: &Window<u32, Host, S>,
///     target: &Window<u32, Host, T>,
/// ) -> Result<()> {
///     comm.put_signal(source, 0, target.at(0))?;
///     comm.wait_signal(0)
/// }
/// let (source, target) = (comm.window(4)?, comm.window(4)?);
/// put(&comm, &source, &target)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window cannot be the source of a put",
    label = "registered without `Symmetric`",
    note = "a put reads from a symmetric window of its communicator: `comm.window(len)` makes one"
)]
pub trait RmaSource: WindowKind {}

/// A window that puts may write.
///
/// See the example of [`RmaSource`].
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window cannot be the target of a put",
    label = "registered without `Symmetric`",
    note = "NCCL does not check this: the put may go to the wrong place",
    note = "make it with `comm.window(len)`, or register its memory with `comm.register_window(buffer)`: both are symmetric"
)]
pub trait RmaTarget: WindowKind {}

/// A window whose peers' memory has addresses here.
///
/// ```
/// # use typed_nccl::{Communicator, Host, LsaPointers, Result, Seat, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn is_mapped<K: LsaPointers>(
///     comm: &Communicator<Host>,
///     window: &Window<u32, Host, K>,
/// ) -> Result<bool> {
///     Ok(comm.peer_ptr(window, comm.ring(1))?.is_some())
/// }
/// let window = comm.window(4)?;
/// assert!(is_mapped(&comm, &window)?);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window has no pointers to its peers' memory",
    label = "not mapped for loads and stores",
    note = "windows of every other kind have them, among the ranks that share memory (`comm.lsa_team()`): `comm.window(len)` makes a symmetric one",
    note = "for the endpoints of counted transfers, register the window as `CftCounted`: `comm.register_window_as(memory, CftCounted)`"
)]
pub trait LsaPointers: WindowKind {}

macro_rules! kinds {
    ($($kind:ty = $bits:literal: $($can:ident)*),+ $(,)?) => { $(
        impl sealed::Sealed for $kind {}

        impl WindowKind for $kind {
            const BITS: u32 = $bits;
            const NAME: &'static str = stringify!($kind);
        }

        $(
            #[diagnostic::do_not_recommend]
            impl $can for $kind {}
        )*
    )+ };
}

kinds! {
    LocalOnly = 0: LsaPointers,
    Symmetric = 1: RmaSource RmaTarget LsaPointers,
    SymmetricStrict = 3: RmaSource RmaTarget LsaPointers,
    GinOnly = 4: ,
    CftCounted = 8: LsaPointers,
    Flagged<0> = 0: LsaPointers,
    Flagged<1> = 1: RmaSource RmaTarget LsaPointers,
    Flagged<2> = 2: LsaPointers,
    Flagged<3> = 3: RmaSource RmaTarget LsaPointers,
    Flagged<4> = 4: ,
    Flagged<5> = 5: ,
    Flagged<6> = 6: ,
    Flagged<7> = 7: ,
    Flagged<8> = 8: LsaPointers,
    Flagged<9> = 9: RmaSource RmaTarget LsaPointers,
    Flagged<10> = 10: LsaPointers,
    Flagged<11> = 11: RmaSource RmaTarget LsaPointers,
    Flagged<12> = 12: ,
    Flagged<13> = 13: ,
    Flagged<14> = 14: ,
    Flagged<15> = 15: ,
}

mod sealed {
    pub trait Sealed {}
}
