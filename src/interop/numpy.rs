//! NumPy's arrays, through Python, for host devices.
//!
//! [`resolve`] reads one attribute, `__array_struct__`, which describes the whole array.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use super::python::{self, Order, Shape, dtype_of, elements, once, type_name};
use super::{Described, Tensor, TensorPlace};
use crate::error::{AdoptFault, Error, Site};
use crate::{DType, Device, Result};

const LIBRARY: &str = "numpy";

/// `PyArrayInterface` of the array interface, version 3.
#[repr(C)]
struct ArrayStruct {
    two: c_int,
    axes: c_int,
    kind: c_char,
    size: c_int,
    flags: c_int,
    shape: *const isize,
    /// In bytes.
    strides: *const isize,
    data: *mut c_void,
    descr: *mut c_void,
}

const C_ORDER: c_int = 0x1;
const NATIVE: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

/// Takes a `numpy.ndarray`, without a copy. The tensor keeps the object. Local; the host does not
/// wait.
///
/// The object must keep its memory meanwhile: Python can take it away
/// (`x.resize(.., refcheck=False)`).
///
/// # Errors
/// [`Error::NotAdoptable`], with the NumPy expression that fixes it: no array; a data type that
/// this library lacks or of the other byte order; no elements; elements that are not
/// one contiguous block. [`Error::Other`]: NumPy cannot be imported.
#[track_caller]
pub fn resolve(x: &Bound<'_, PyAny>) -> Result<Tensor<Py<PyAny>>> {
    let site = Site::caller();
    python::tensor(x, LIBRARY, describe(x).map_err(Error::other)?, site)
}

fn describe(x: &Bound<'_, PyAny>) -> PyResult<Result<Described, AdoptFault>> {
    static ARRAY: OnceLock<Py<PyType>> = OnceLock::new();
    let py = x.py();
    let look_up = || {
        let array = py.import(LIBRARY)?.getattr("ndarray")?;
        Ok(array.extract::<Bound<'_, PyType>>()?.unbind())
    };
    let array = once(&ARRAY, look_up)?;
    if !x.is_instance(array.bind(py))? {
        return Ok(Err(AdoptFault::NotATensor { found: type_name(x) }));
    }
    let capsule = x.getattr(intern!(py, "__array_struct__"))?.extract::<Bound<'_, PyCapsule>>()?;
    let pointer = python::pointer::<ArrayStruct>(&capsule, None)?;
    // SAFETY: NumPy's own array has a structure of this kind in this capsule, which is kept
    // meanwhile.
    let array = unsafe { pointer.as_ref() };
    // The number of axes and the size are not negative.
    let (axes, size) = (array.axes as usize, array.size as usize);
    // SAFETY: there is one per axis.
    let shape = unsafe { axis(array.shape, axes) }.iter().map(|&n| n as usize).collect::<Vec<_>>();
    let known = dtype_of(array.kind as u8 as char, size).filter(|_| array.flags & NATIVE != 0);
    let dtype = match known {
        Some(dtype) => dtype,
        None => match of_extension(x)? {
            Ok(dtype) => dtype,
            Err(fault) => return Ok(Err(fault)),
        },
    };
    let strides = if array.flags & C_ORDER != 0 {
        None
    } else {
        // SAFETY: there is one per axis.
        match elements(&shape, unsafe { axis(array.strides, axes) }, dtype) {
            Ok(strides) => Some(strides),
            Err(fault) => return Ok(Err(fault)),
        }
    };
    let (library, address) = (LIBRARY, array.data.expose_provenance());
    let (place, writable) = (TensorPlace::OnHost { pinned: false }, array.flags & WRITEABLE != 0);
    Ok(Ok(Described { library, address, dtype, shape, strides, place, writable }))
}

/// # Safety
/// There is one number per axis, for as long as the slice.
unsafe fn axis<'n>(start: *const isize, axes: usize) -> &'n [isize] {
    if axes == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, axes) }
}

/// Whether `ml_dtypes` adds it to NumPy.
fn is_extension(dtype: DType) -> bool {
    dtype.kind().is_none()
}

/// The data type of an array whose kind does not determine it.
fn of_extension(x: &Bound<'_, PyAny>) -> PyResult<Result<DType, AdoptFault>> {
    let found = x.getattr(intern!(x.py(), "dtype"))?;
    let name = found.getattr(intern!(x.py(), "name"))?.to_string();
    let is_known = |dtype: &DType| is_extension(*dtype) && dtype.names().python == name;
    let known = DType::ALL.into_iter().find(is_known);
    let fault = || AdoptFault::NoSuchType { found: found.to_string() };
    Ok(known.ok_or_else(fault))
}

/// Allocates a `numpy.ndarray` of this shape in NCCL's memory, for a host device. The data type
/// defaults to NumPy's, `float64`; types that NumPy lacks need Python's `ml_dtypes`. Elements are
/// zero. The memory is freed once the array, its views, and the windows and buffers over it are
/// gone.
///
/// With [`resolve`] and [`Tensor::nccl_on`], an array in C order becomes a buffer that can back a
/// window.
///
/// # Errors
/// The allocation fails, or is on a GPU; `ml_dtypes` is missing.
#[track_caller]
pub fn empty<'py, D: Device + 'static>(
    py: Python<'py>,
    device: &D,
    shape: impl Into<Shape>,
    dtype: Option<DType>,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype.unwrap_or(DType::F64);
    let extension = match is_extension(dtype) {
        true => Some(py.import("ml_dtypes")?.getattr(dtype.names().python)?),
        false => None,
    };
    let memory = python::allocate(py, device, shape.into(), dtype, order)?;
    let x = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "asarray"), (memory,))?;
    extension.map_or(Ok(x.clone()), |dtype| x.call_method1(intern!(py, "view"), (dtype,)))
}
