//! The two forms of a managed tensor.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};

use dlpack_rs::ffi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use static_assertions::const_assert;

/// The version that this library writes. Its newest feature, 8-bit floats, came with 1.1; a rule of
/// 1.2 is kept too: strides are always present.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

/// A managed tensor of DLPack: [`DLManagedTensorVersioned`], or [`DLManagedTensor`], its form
/// before 1.0. Sealed.
///
/// See the example of [`export`](super::export).
pub trait ManagedTensor: form::Form {}

impl ManagedTensor for DLManagedTensor {}
impl ManagedTensor for DLManagedTensorVersioned {}

/// The common beginning of all versions of a form.
pub struct Head<F> {
    /// `None` for a form without one.
    version: Option<DLPackVersion>,
    pub(super) flags: u64,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut F)>,
}

impl<F> Head<F> {
    /// The version, if the layout after the head is not known.
    pub(super) fn unknown_version(&self) -> Option<DLPackVersion> {
        self.version.filter(|version| version.major != VERSION.major)
    }
}

mod form {
    use super::{DLTensor, Head, NonNull};

    pub trait Form: Sized + 'static {
        /// Makes one of ours.
        fn new(tensor: DLTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self;

        /// # Safety
        /// The tensor is valid, of any version.
        unsafe fn head(this: NonNull<Self>) -> Head<Self>;

        /// # Safety
        /// The tensor is valid, of a known version.
        unsafe fn read(this: NonNull<Self>) -> Self {
            // SAFETY: the caller's promise.
            unsafe { this.read() }
        }

        fn tensor(&self) -> &DLTensor;
    }
}

impl form::Form for DLManagedTensor {
    fn new(dl_tensor: DLTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Self { dl_tensor, manager_ctx: null_mut(), deleter: Some(deleter) }
    }

    unsafe fn head(this: NonNull<Self>) -> Head<Self> {
        // SAFETY: the caller's promise; there is one version.
        let whole = unsafe { this.read() };
        Head { version: None, flags: 0, deleter: whole.deleter }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }
}

impl form::Form for DLManagedTensorVersioned {
    fn new(dl_tensor: DLTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        let (version, manager_ctx, deleter) = (VERSION, null_mut(), Some(deleter));
        Self { version, manager_ctx, deleter, flags: 0, dl_tensor }
    }

    unsafe fn head(this: NonNull<Self>) -> Head<Self> {
        // No reference to the whole: a future version may be shorter.
        let this = this.cast::<Start>();
        // SAFETY: the caller's promise; every version begins like this.
        let Start { version, deleter, flags, .. } = unsafe { this.read() };
        Head { version: Some(version), flags, deleter }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }
}

/// The fields of a [`DLManagedTensorVersioned`] that no version moves.
#[repr(C)]
#[derive(Clone, Copy)]
struct Start {
    version: DLPackVersion,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
}

macro_rules! offsets {
    ($($of:ident { $($field:ident: $offset:expr),+ })+) => { $( $(
        const_assert!(cfg!(not(target_pointer_width = "64")) || offset_of!($of, $field) == $offset);
    )+ )+ };
}

// As in dlpack.h, on a machine with 64-bit addresses.
offsets! {
    Start { version: 0, context: 8, deleter: 16, flags: 24 }
    DLManagedTensorVersioned { version: 0, manager_ctx: 8, deleter: 16, flags: 24, dl_tensor: 32 }
    DLManagedTensor { dl_tensor: 0, manager_ctx: 48, deleter: 56 }
    DLTensor { data: 0, device: 8, ndim: 16, dtype: 20, shape: 24, strides: 32, byte_offset: 40 }
    DLDevice { device_type: 0, device_id: 4 }
    DLDataType { code: 0, bits: 1, lanes: 2 }
}
