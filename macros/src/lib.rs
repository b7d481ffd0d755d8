//! The macros of `typed-nccl`. Use them through that crate, which passes on its own name.
//!
//! `plan!` goes through stages, each of which knows only what it needs: `parse` turns tokens into an
//! `ast`, `valid` looks names up and makes the plan that the checker knows, `tell` says what the checker
//! found, and `expand` writes the module. No rule about plans is written here twice: what can be decided
//! about a plan as data is decided by `typed_nccl_plan::check`.

mod area;
mod ast;
mod expand;
mod fault;
mod kernel;
mod nearest;
mod parse;
mod tell;
mod valid;

#[cfg(test)]
mod tests;

/// Declares a kernel: see `typed_nccl::kernel!`, which is this with the name of its crate.
#[proc_macro]
pub fn kernel(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream {
    kernel::kernel(tokens.into()).into()
}

/// Declares a communication plan: see `typed_nccl::plan!`, which is this with the name of its crate.
#[proc_macro]
pub fn plan(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand::plan(tokens.into()).into()
}
