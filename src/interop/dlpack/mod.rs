//! DLPack: tensors from and for every library that speaks it, without a copy.
//!
//! [`import`] takes a managed tensor of either form and gives a [`Tensor`](super::Tensor) that calls its
//! deleter once, when it is let go. [`export`] makes managed tensors of a buffer; the memory goes back
//! when the last of them is deleted. Both are pointers of C: a Python capsule is one with a name.
//!
//! Not in the types: who else reads and writes the elements, and when. DLPack has no word for it, but for
//! the streams of [`ConsumerStream`] and for a tensor that is only to be read.

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
