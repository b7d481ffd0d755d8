//! Tensors of Python's libraries.
//!
//! [`torch`](super::torch), [`cupy`](super::cupy) and [`numpy`](super::numpy) are specific to their
//! library. [`resolve`] takes any object that supports DLPack or has a `__cuda_array_interface__`,
//! and [`export`] makes such an object.
//!
//! An extension resolves its arguments while it holds the interpreter, and releases it to
//! communicate: a rank that waits for another one in the same interpreter would keep that one from
//! running.
//!
//! ```ignore
//! #[pyclass(frozen)]
//! struct Rank(Mutex<Communicator<Host>>);
//!
//! #[pymethods]
//! impl Rank {
//!     fn sum_in_place(&self, x: &Bound<'_, PyAny>) -> PyResult<()> {
//!         let mut tensor = torch::resolve(x)?;
//!         x.py().detach(|| {
//!             let comm = self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!             comm.device().lend(&mut tensor, |x| comm.all_reduce_in_place(x, Sum))
//!         })?;
//!         Ok(())
//!     }
//! }
//! ```
//!
//! Releases 0.25 to 0.30 of pyo3 will do (before 0.26, `detach` is `allow_threads`): the
//! extension's own dependency chooses, and `abi3` and `extension-module` are its features. A tensor
//! that is dropped on a thread of ours is dropped without the interpreter: its object then dies
//! when pyo3 runs next.

mod errors;
mod export;
mod releases;
mod resolve;
mod shape;

pub use export::export;
pub use resolve::{Foreign, resolve};
pub use shape::{Order, Shape};

#[allow(unused_imports, reason = "each library's module uses what it needs")]
pub(super) use export::allocate;
#[allow(unused_imports, reason = "each library's module uses what it needs")]
pub(super) use releases::{once, pointer};
#[allow(unused_imports, reason = "each library's module uses what it needs")]
pub(super) use resolve::{dtype_of, elements, numbers, tensor, type_name};
