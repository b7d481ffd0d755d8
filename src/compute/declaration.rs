//! A kernel as data: the output of [`kernel!`](crate::kernel!).

use super::{Extents, Views};
use crate::{DType, Element};

/// One kernel, for one choice of its type parameters.
#[derive(Debug)]
pub struct Kernel {
    /// Its name, in Rust and in CUDA.
    pub name: &'static str,
    /// Its parameters, in order.
    pub parameters: &'static [Parameter],
    /// Types that the source names by parameter, such as `T`.
    pub types: &'static [(&'static str, DType)],
    /// The body for GPUs.
    pub cuda: Option<Source>,
    /// The body for the host.
    pub host: Option<fn(Views<'_>)>,
    /// Threads per block.
    pub threads: u32,
    /// Blocks of the grid; by default enough for the longest slice.
    pub blocks: Option<fn(Extents<'_>) -> usize>,
    /// The oldest architecture that the source supports: 90 for compute capability 9.0.
    pub needs: u32,
}

/// The source of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The text.
    pub text: &'static str,
    /// How to compile it.
    pub kind: SourceKind,
    /// The file that contains or declares it.
    pub file: &'static str,
    /// The line on which it begins.
    pub line: u32,
}

/// The form of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// The body of the kernel's function, in CUDA C++.
    Body,
    /// A whole translation unit of CUDA C++.
    Unit,
    /// PTX, compiled by the driver.
    Ptx,
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
}

/// A parameter's type in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A value: its type in C++, and its element type if it has one.
    Scalar(&'static str, Option<DType>),
    /// `const T*`, and a length.
    Read(DType),
    /// `T*`, and a length.
    Write(DType),
    /// `ncclDevComm`, by value.
    Comm,
    /// The index of a barrier.
    Barrier,
    /// `ncclWindow_t`, and a length.
    Windowed(DType),
    /// `ncclWindow_t`, the offset of the part, and its length.
    PartOfWindow(DType),
}

impl Parameter {
    /// A value.
    pub const fn scalar<T: Scalar>(name: &'static str) -> Self {
        Self { name, ty: Type::Scalar(T::CUDA, T::ELEMENT) }
    }

    /// A slice that the kernel reads.
    pub const fn read<T: Element>(name: &'static str) -> Self {
        Self { name, ty: Type::Read(T::DTYPE) }
    }

    /// A slice that the kernel writes.
    pub const fn write<T: Element>(name: &'static str) -> Self {
        Self { name, ty: Type::Write(T::DTYPE) }
    }

    /// A device communicator.
    pub const fn dev_comm(name: &'static str) -> Self {
        Self { name, ty: Type::Comm }
    }

    /// A barrier.
    pub const fn barrier(name: &'static str) -> Self {
        Self { name, ty: Type::Barrier }
    }

    /// Part of a window.
    pub const fn window_slice<T: Element>(name: &'static str) -> Self {
        Self { name, ty: Type::PartOfWindow(T::DTYPE) }
    }

    /// A window.
    pub const fn window<T: Element>(name: &'static str) -> Self {
        Self { name, ty: Type::Windowed(T::DTYPE) }
    }
}

/// A value that a kernel can take: an [`Element`], `bool` or `usize`.
///
/// # Safety
/// `CUDA` names a C++ type of the same size, for which the bytes of a value are valid.
///
/// ```
/// # use typed_nccl::{Device, Host, Result, Stream, kernel, kernel::Scalar};
/// kernel! {
///     /// `x = value`
///     fn set(value: u32, x: &mut [u32]);
///     host { x.fill(value); }
/// }
/// fn is_scalar<S: Scalar>(_: S) {}
///
/// is_scalar(7_u32);
/// let mut x = Host::local()?.zeros(2)?;
/// Host::local()?.stream()?.run(set(7, &mut x))?;
/// assert_eq!(x.to_vec()?, [7, 7]);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}` by value",
    label = "not a number that CUDA and Rust both have",
    note = "scalars of a kernel are the element types, `bool` and `usize`; memory is taken as `&[T]` or `&mut [T]`"
)]
pub unsafe trait Scalar: Copy + Send + Sync + 'static {
    /// Its name in CUDA C++.
    #[doc(hidden)]
    const CUDA: &'static str;

    /// Its element type, if it has one.
    #[doc(hidden)]
    const ELEMENT: Option<DType>;
}

// SAFETY: each name denotes a type of the same size on both sides.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element> Scalar for T {
    const CUDA: &'static str = T::DTYPE.names().cuda;
    const ELEMENT: Option<DType> = Some(T::DTYPE);
}

// SAFETY: one byte, 0 or 1, on both sides.
unsafe impl Scalar for bool {
    const CUDA: &'static str = "bool";
    const ELEMENT: Option<DType> = None;
}

// SAFETY: as wide as a pointer on both sides: CUDA's addresses have the host's width.
unsafe impl Scalar for usize {
    const CUDA: &'static str = "size_t";
    const ELEMENT: Option<DType> = None;
}
