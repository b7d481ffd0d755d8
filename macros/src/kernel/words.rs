//! Words that a kernel may or may not use.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// The bounds of a type parameter.
pub(crate) const BOUNDS: [&str; 3] = ["Element", "Numeric", "Float"];

/// Element types that are Rust's own.
const PLAIN: [&str; 8] = ["f32", "f64", "i8", "u8", "i32", "u32", "i64", "u64"];

/// Element types of the crate.
const OURS: [&str; 4] = ["f16", "bf16", "F8E4M3", "F8E5M2"];

/// Values that are not elements.
const VALUES: [&str; 2] = ["usize", "bool"];

/// The element types, as messages list them.
pub(super) const LIST: &str = "i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, F8E4M3 and F8E5M2";

/// Whether it is a numeric type of Rust that NCCL lacks.
pub(super) fn is_no_element(name: &str) -> bool {
    ["i16", "u16", "i128", "u128", "isize", "char", "str", "String"].contains(&name)
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
    PLAIN.into_iter().chain(OURS).chain(VALUES)
}

/// The path of an element type.
pub(crate) fn element(krate: &TokenStream, name: &Ident) -> Option<TokenStream> {
    if PLAIN.iter().any(|known| name == known) {
        return Some(quote!(#name));
    }
    OURS.iter().any(|known| name == known).then(|| quote!(#krate::#name))
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
