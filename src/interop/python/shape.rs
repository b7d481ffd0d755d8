//! Shapes and orders, also converted from Python. They do not implement `FromPyObject`, which
//! changed its form in pyo3 0.27.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The order of the elements in memory. From Python: [`Order::from_python`].
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

/// The number of elements along each dimension. From Python: [`Shape::from_python`].
///
/// ```ignore
/// // `empty(4)` and `empty((2, 3))` of Python.
/// #[pyfunction]
/// fn empty<'py>(
///     py: Python<'py>,
///     #[pyo3(from_py_with = Shape::from_python)] shape: Shape,
/// ) -> PyResult<Bound<'py, PyAny>> {
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

impl Shape {
    /// A shape of Python's: an integer, or a tuple or list of them. For pyo3's `from_py_with`.
    ///
    /// # Errors
    /// A `TypeError` that says what a shape is.
    pub fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Self> {
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

impl Order {
    /// An order of Python's, `"C"` or `"F"`. For pyo3's `from_py_with`.
    ///
    /// # Errors
    /// A `ValueError` for another string, a `TypeError` for another object.
    pub fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "C" => Ok(Self::C),
            "F" => Ok(Self::F),
            other => {
                Err(PyValueError::new_err(format!("an order is \"C\" or \"F\", and not {other:?}")))
            }
        }
    }
}
