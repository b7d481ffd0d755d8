//! The macros of `typed-nccl`. Use them through that crate, which passes its own path.
//!
//! `plan!` works in stages that each know only what they need: `parse` turns tokens into an `ast`,
//! `valid` looks up names and makes the plan that the checker knows, `tell` turns the checker's
//! problems into errors, and `expand` generates the module. No rule about plans is duplicated here:
//! `typed_nccl_plan::check` decides everything that can be decided about a plan as data.

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

/// Declares a kernel. Use `typed_nccl::kernel!`, which calls this with the path of its crate.
#[proc_macro]
pub fn kernel(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream {
    kernel::kernel(tokens.into()).into()
}

/// Declares a communication plan. Use `typed_nccl::plan!`, which calls this with the path of its
/// crate.
#[proc_macro]
pub fn plan(tokens: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand::plan(tokens.into()).into()
}
