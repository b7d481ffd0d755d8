//! DLPack: tensors from and for every library that supports it, without a copy.
//!
//! [`import`] takes a managed tensor of either form and returns a [`Tensor`](super::Tensor) that
//! calls its deleter once, when the tensor is no longer used. [`export`] makes managed tensors of a
//! buffer, whose memory is freed once the last of them is deleted. Both are C pointers: a Python
//! capsule wraps one with a name.
//!
//! Not in the types: who else reads and writes the elements, and when. DLPack says nothing about it
//! except through the streams of [`ConsumerStream`] and the read-only flag.

mod abi;
mod dtype;
mod export;
mod import;
mod layout;
mod stream;

pub use dlpack_rs::ffi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};

pub use abi::ManagedTensor;
pub use export::{Export, Exportable, export};
pub use import::{Managed, import, import_on};
pub use layout::Layout;
pub use stream::ConsumerStream;

#[cfg(feature = "python")]
pub(in crate::interop) use export::Outside;
