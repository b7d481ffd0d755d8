//! Window kinds: what a window was registered for (NCCL's flags).

/// Registered as symmetric (`NCCL_WIN_COLL_SYMMETRIC`): puts, symmetric kernels, copy-engine
/// collectives. The default of `comm.window(len)` and `comm.register_window(buffer)`.
#[derive(Clone, Copy, Debug)]
pub struct Symmetric;

/// Symmetric, and strictly ordered (`NCCL_WIN_STRICT_ORDERING`), which device-side signals on its
/// addresses need.
#[derive(Clone, Copy, Debug)]
pub struct SymmetricStrict;

/// Registered with NCCL's default flags: faster collectives on this memory, no puts.
#[derive(Clone, Copy, Debug)]
pub struct LocalOnly;

/// Registered for device-side network access only (`NCCL_WIN_GIN_ONLY`): no pointers to peers.
#[derive(Clone, Copy, Debug)]
pub struct GinOnly;

/// Registered for counted writes (`NCCL_WIN_CFT_COUNTED`).
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
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window cannot be the source of a put",
    label = "registered without `Symmetric`",
    note = "a put reads from a symmetric window of its communicator: `comm.window(len)` makes one"
)]
pub trait RmaSource: WindowKind {}

/// A window that puts may write.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window cannot be the target of a put",
    label = "registered without `Symmetric`",
    note = "NCCL does not check this: the put may go to the wrong place",
    note = "register it with `comm.window(len)` or `comm.register_window(buffer)`, which are symmetric"
)]
pub trait RmaTarget: WindowKind {}

/// A window whose peers' memory has addresses here.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` window has no pointers to its peers' memory",
    label = "not mapped for loads and stores",
    note = "windows of every other kind are, among the ranks of one team (`comm.lsa_team()`): `comm.window(len)` makes a symmetric one"
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
