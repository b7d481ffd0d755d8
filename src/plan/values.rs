//! The values that a plan is bound with.

use typed_nccl_plan::ir::{self, ElementType, Plan};

use crate::error::BindFault;
use crate::{DType, Element};

/// The values that binding supplies: the extents of axes if there are several, parameters, and the
/// types for type parameters, all by the plan's names.
///
/// The extent of a plan's only axis is the communicator's size, and may be omitted.
///
/// ```
/// # use typed_nccl::plan::Values;
/// /// For a plan over a mesh, with a length, a list of sizes and elements of type `T`.
/// let values = Values::new().axis("rows", 2).axis("cols", 4).number("len", 1024);
/// let values = values.list("sizes", &[16, 64]).element::<f32>("T");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub(super) axes: Vec<(String, i64)>,
    pub(super) params: Vec<(String, Vec<i64>)>,
    pub(super) elements: Vec<(String, DType)>,
}

impl Values {
    /// No values yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of ranks along an axis.
    #[must_use]
    pub fn axis(mut self, name: &str, extent: usize) -> Self {
        self.axes.push((name.to_owned(), number(extent)));
        self
    }

    /// Sets a parameter.
    #[must_use]
    pub fn number(mut self, name: &str, value: usize) -> Self {
        self.params.push((name.to_owned(), vec![number(value)]));
        self
    }

    /// Sets a parameter that is a list.
    #[must_use]
    pub fn list(mut self, name: &str, values: &[usize]) -> Self {
        let values = values.iter().copied().map(number).collect();
        self.params.push((name.to_owned(), values));
        self
    }

    /// Sets a type parameter.
    #[must_use]
    pub fn element<T: Element>(mut self, name: &str) -> Self {
        self.elements.push((name.to_owned(), T::DTYPE));
        self
    }
}

/// Larger values exceed all memory.
fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The data types of a plan's buffers.
pub(super) fn dtypes(plan: &Plan, values: &Values) -> Result<Vec<DType>, BindFault> {
    let of = |buffer: &ir::Buffer| {
        let ElementType::Generic(parameter) = &buffer.element else {
            let known = DType::ALL.into_iter().find(|dtype| dtype.in_plans() == buffer.element);
            return known.ok_or_else(|| BindFault::NoElement { name: buffer.element.to_string() });
        };
        let given = values.elements.iter().find(|(name, _)| name == parameter);
        given
            .map(|(_, dtype)| *dtype)
            .ok_or_else(|| BindFault::NoElement { name: parameter.clone() })
    };
    plan.buffers.iter().map(of).collect()
}
