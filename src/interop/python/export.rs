//! Our memory as a Python object.

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::releases::{self, detach};
use super::{Order, Shape};
use crate::interop::dlpack::{
    self, ConsumerStream, DLManagedTensor, DLManagedTensorVersioned, Export, Exportable, Layout,
    Managed, ManagedTensor, Outside,
};
use crate::lock::Mutex;
use crate::{DType, Device, DynBuffer, Result};

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// A buffer as an object that Python's libraries take without a copy: it has `__dlpack__` and,
/// depending on its device, `__cuda_array_interface__` version 3 or `__array_interface__`. The
/// memory is freed once the object and everything made from it are gone.
///
/// A consumer's uses come after the work enqueued on the buffer: on a GPU its stream waits, on the
/// host its thread does, with the interpreter released.
///
/// # Errors
/// The shape does not have all of the buffer's elements.
#[track_caller]
pub fn export<B: Exportable + Send + 'static>(
    py: Python<'_>,
    buffer: B,
    shape: impl Into<Shape>,
    order: Order,
) -> PyResult<Bound<'_, PyAny>> {
    let layout = match order {
        Order::C => Layout::C,
        Order::F => Layout::F,
    };
    let shared = dlpack::export(buffer, &shape.into().0, layout)?;
    // SAFETY: nobody else has the tensor. While the object lives, its memory is known as NCCL's,
    // also to a library that got it through an array interface.
    let listed = unsafe { Managed::new(shared.share::<DLManagedTensor>()?) };
    let memory =
        Memory { outside: shared.outside()?, shared: Mutex::new((Box::new(shared), listed)) };
    Ok(Bound::new(py, memory)?.into_any())
}

/// NCCL memory as an object from which a library makes its own.
#[allow(dead_code, reason = "unused without a library's module")]
#[track_caller]
pub(in crate::interop) fn allocate<'py, D: Device + 'static>(
    py: Python<'py>,
    device: &D,
    shape: Shape,
    dtype: DType,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    // A shape that does not fit into memory is refused by the allocation.
    let len = shape.0.iter().fold(1_usize, |len, &n| len.saturating_mul(n));
    let buffer = detach(py, || DynBuffer::nccl_zeros(device, dtype, len))?;
    export(py, buffer, shape, order)
}

/// A buffer that can be exported more than once.
trait Shared: Send {
    /// Blocks the host, or makes the stream wait, until all enqueued uses are over.
    fn order(&self, stream: Option<ConsumerStream>) -> Result<()>;

    fn versioned(&self) -> Result<NonNull<DLManagedTensorVersioned>>;

    fn unversioned(&self) -> Result<NonNull<DLManagedTensor>>;
}

impl<B: Exportable + Send> Shared for Export<B> {
    fn order(&self, stream: Option<ConsumerStream>) -> Result<()> {
        match stream {
            None => self.wait(),
            // SAFETY: by the protocol, the consumer names a stream of the tensor's GPU.
            Some(stream) => unsafe { self.order_before(stream) },
        }
    }

    fn versioned(&self) -> Result<NonNull<DLManagedTensorVersioned>> {
        self.share()
    }

    fn unversioned(&self) -> Result<NonNull<DLManagedTensor>> {
        self.share()
    }
}

/// A buffer of typed-nccl.
#[pyclass(frozen, module = "typed_nccl")]
struct Memory {
    shared: Mutex<(Box<dyn Shared>, Managed)>,
    outside: Outside,
}

impl Memory {
    fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&dyn Shared) -> R + Send) -> R {
        detach(py, || work(&*self.shared.lock().0))
    }

    fn is_cuda(&self) -> bool {
        self.outside.device.device_type != 1
    }

    /// The fields that both array interfaces share.
    fn interface<'py>(&self, py: Python<'py>, typestr: &str) -> PyResult<Bound<'py, PyDict>> {
        let Outside { address, dtype, shape, strides, .. } = &self.outside;
        let bytes = strides.iter().map(|stride| stride * dtype.size() as i64);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("shape", PyTuple::new(py, shape)?)?;
        interface.set_item("strides", PyTuple::new(py, bytes.collect::<Vec<_>>())?)?;
        interface.set_item("data", (*address, false))?;
        Ok(interface)
    }
}

#[pymethods]
impl Memory {
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.__dlpack_device__())
        {
            return Err(PyBufferError::new_err("the memory is given as it is, not as a copy"));
        }
        let stream = match self.is_cuda() {
            true => Some(ConsumerStream::from_protocol(stream)?),
            false => None,
        };
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let given = self.with(py, |shared| {
            shared.order(stream)?;
            Ok::<_, crate::Error>(match is_versioned {
                true => Given::Versioned(shared.versioned()?),
                false => Given::Unversioned(shared.unversioned()?),
            })
        })?;
        match given {
            Given::Versioned(tensor) => capsule(py, tensor, VERSIONED, let_go_versioned),
            Given::Unversioned(tensor) => capsule(py, tensor, UNVERSIONED, let_go_unversioned),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.outside.device.device_type.cast_signed(), self.outside.device.device_id)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let typestr = typestr(self.outside.dtype).filter(|_| self.is_cuda());
        let typestr = typestr.ok_or_else(|| no("__cuda_array_interface__"))?;
        let legacy = ConsumerStream::LEGACY;
        self.with(py, |shared| shared.order(Some(legacy)))?;
        let interface = self.interface(py, &typestr)?;
        interface.set_item("stream", legacy.to_protocol())?;
        Ok(interface)
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.is_cuda() {
            return Err(no("__array_interface__"));
        }
        self.with(py, |shared| shared.order(None))?;
        let dtype = self.outside.dtype;
        let raw = || format!("|V{}", dtype.size());
        self.interface(py, &typestr(dtype).unwrap_or_else(raw))
    }
}

/// A managed tensor, on its way into a capsule.
enum Given {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

// SAFETY: a managed tensor of ours may be deleted on any thread.
unsafe impl Send for Given {}

fn no(interface: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "this memory, of this type, has no `{interface}`: use `__dlpack__`"
    ))
}

/// An array interface's name of the type; `None` for those that NumPy lacks.
fn typestr(dtype: DType) -> Option<String> {
    let kind = dtype.kind()?;
    let size = dtype.size();
    Some(format!("{}{kind}{size}", if size == 1 { '|' } else { '<' }))
}

/// A capsule of a managed tensor, which deletes the tensor if nobody takes it.
fn capsule<'py, F: ManagedTensor>(
    py: Python<'py>,
    tensor: NonNull<F>,
    name: &'static CStr,
    let_go: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyCapsule>> {
    // SAFETY: the pointer is valid until the matching destructor has run, on any thread.
    let made = unsafe { releases::capsule(py, tensor, name, let_go) };
    if made.is_err() {
        // SAFETY: nobody else has it.
        drop(unsafe { Managed::new(tensor) });
    }
    made
}

unsafe extern "C" fn let_go_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes a destructor its capsule, whose pointer has that name.
    unsafe { let_go::<DLManagedTensorVersioned>(capsule, VERSIONED) };
}

unsafe extern "C" fn let_go_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe { let_go::<DLManagedTensor>(capsule, UNVERSIONED) };
}

/// Deletes a capsule's tensor unless a consumer took it and renamed the capsule.
///
/// # Safety
/// It is a capsule that under that name has a managed tensor of that form.
unsafe fn let_go<F: ManagedTensor>(capsule: *mut ffi::PyObject, name: &'static CStr) {
    // SAFETY: the caller's promise.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: it has a pointer of that name.
    let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) };
    if let Some(tensor) = NonNull::new(tensor) {
        // SAFETY: nobody took it.
        drop(unsafe { Managed::new(tensor.cast::<F>()) });
    }
}
