//! Shapes and orders, also converted from Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The order of the elements in memory. From Python: `"C"` or `"F"`.
///
/// ```ignore
/// // As NumPy's `order="F"`: the first index varies fastest.
/// let x = numpy::empty(py, &device, [2, 3], Some(DType::F32), Order::F)?;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The last index varies fastest.
    #[default]
    C,
    /// The first index varies fastest (Fortran). Lending and adopting require C order: pass such an
    /// array's transposed view.
    F,
}

/// The number of elements along each dimension. From Python: an integer, or a tuple or list of
/// them.
///
/// ```ignore
/// // `empty(4)` and `empty((2, 3))` of Python.
/// #[pyfunction]
/// fn empty(py: Python<'_>, shape: Shape) -> PyResult<Bound<'_, PyAny>> {
///     numpy::empty(py, &Host::local()?, shape, None, Order::C)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape(pub(super) Vec<usize>);

impl From<usize> for Shape {
    fn from(len: usize) -> Self {
        Self(vec![len])
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dimensions: [usize; N]) -> Self {
        Self(dimensions.to_vec())
    }
}

impl From<&[usize]> for Shape {
    fn from(dimensions: &[usize]) -> Self {
        Self(dimensions.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dimensions: Vec<usize>) -> Self {
        Self(dimensions)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Shape {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(len) = object.extract::<usize>() {
            return Ok(Self::from(len));
        }
        object.extract::<Vec<usize>>().map(Self).map_err(|_| {
            PyTypeError::new_err(format!(
                "a shape is an integer that is not negative, or a tuple of them, and not {}",
                object.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string())
            ))
        })
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Order {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "C" => Ok(Self::C),
            "F" => Ok(Self::F),
            other => {
                Err(PyValueError::new_err(format!("an order is \"C\" or \"F\", and not {other:?}")))
            }
        }
    }
}
