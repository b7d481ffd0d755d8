//! Words that a kernel may or may not use.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use typed_nccl_plan::ir::{ElementKind, ElementType};

/// The bounds of a type parameter.
pub(crate) const BOUNDS: [&str; 3] = ["Element", "Numeric", "Float"];

/// Values that are not elements.
const VALUES: [&str; 2] = ["usize", "bool"];

/// The names of the element types.
pub(crate) fn elements() -> impl Iterator<Item = &'static str> {
    ElementType::NAMED.into_iter().map(|(name, _)| name)
}

/// The element types, as messages list them.
pub(super) fn list() -> String {
    let [names @ .., last] = ElementType::NAMED.map(|(name, _)| name);
    format!("{} and {last}", names.join(", "))
}

/// Whether it is a numeric type of Rust that NCCL lacks.
pub(super) fn is_no_element(name: &str) -> bool {
    ["i128", "u128", "isize", "char", "str", "String"].contains(&name)
}

/// The Rust type for a type of C++ or CUDA.
pub(super) fn in_rust(name: &str) -> Option<&'static str> {
    Some(match name {
        "float" => "f32",
        "double" => "f64",
        "half" | "__half" => "f16",
        "bfloat16" | "__nv_bfloat16" => "bf16",
        "int" => "i32",
        "unsigned" => "u32",
        "long" => "i64",
        "size_t" => "usize",
        _ => return None,
    })
}

/// Every type that an argument can be or contain.
pub(super) fn types() -> impl Iterator<Item = &'static str> {
    elements().chain(VALUES)
}

/// The path of an element type.
pub(crate) fn element(krate: &TokenStream, name: &Ident) -> Option<TokenStream> {
    let (_, element) = ElementType::NAMED.into_iter().find(|(known, _)| name == known)?;
    Some(match element.kind() {
        ElementKind::Integer | ElementKind::ShortInteger | ElementKind::Float => quote!(#name),
        _ => quote!(#krate::#name),
    })
}

/// Whether it can only be passed by value.
pub(super) fn is_value(name: &Ident) -> bool {
    VALUES.iter().any(|known| name == known)
}

/// Keywords of C++ that are names in Rust.
const TAKEN: &str = "alignas alignof and asm auto bool case catch char class compl constexpr decltype default \
    delete double explicit export float friend goto inline int long mutable namespace new \
    noexcept not nullptr operator or private protected public register short signed sizeof \
    switch template this throw typedef typeid typename union unsigned using void volatile \
    wchar_t xor thread_local static_assert reinterpret_cast threadIdx blockIdx blockDim \
    gridDim warpSize size_t";

/// Whether the name has a meaning in C++ or CUDA.
pub(super) fn is_taken(name: &str) -> bool {
    TAKEN.split(' ').any(|word| word == name)
}
