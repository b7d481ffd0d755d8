//! The caller's memory for one run.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use typed_nccl_plan::ir::{Buffer, Role};

use super::types::Types;
use super::{docs, params};
use crate::ast::text;
use crate::valid::{Declared, Known, Valid};

/// The caller's memory, without the plan's own. Of two buffers with one name, which was reported,
/// only the first.
pub(super) fn given(valid: &Valid) -> impl Iterator<Item = (&Declared, &Buffer)> {
    let all = valid.memory.iter().zip(&valid.plan.buffers);
    let mut known = HashSet::new();
    all.filter(move |(declared, buffer)| {
        buffer.role != Role::Local && known.insert(text(&declared.name))
    })
}

pub(super) fn buffers(types: &Types<'_>, valid: &Valid) -> TokenStream {
    let krate = types.krate;
    let given: Vec<TokenStream> = given(valid)
        .map(|(Declared { name, docs }, buffer)| {
            let (kind, says) = (types.memory(buffer, &any(name)), docs::buffer(valid, buffer));
            quote!(#docs #[doc = #says] pub #name: #kind)
        })
        .collect();
    if given.is_empty() {
        return TokenStream::new();
    }
    let passed = params::passed(valid).map(|Known { name, docs, .. }| {
        let says = format!("`{name}` of this run, each at most as many as the plan is bound for.");
        quote!(#docs #[doc = #says] pub #name: &'a [usize])
    });
    let (names, each) = (types.given(), anys(valid));
    let world = types.any_window.then(|| quote!(W: #krate::World,));
    quote! {
        /// The memory of one run, borrowed for the call: buffers, views of them, and windows.
        #[allow(non_camel_case_types)]
        pub struct Buffers<'a, #(#names,)* #world #(#each,)*> {
            #(#given,)*
            #(#passed,)*
        }
    }
}

/// The type parameter for the memory that is passed as `name`.
fn any(name: &Ident) -> Ident {
    format_ident!("Memory_{}", text(name))
}

/// Those type parameters.
fn anys(valid: &Valid) -> Vec<Ident> {
    given(valid).filter(|(_, buffer)| !buffer.window).map(|(this, _)| any(&this.name)).collect()
}

/// Whether the plan only reads it. The swap of two copies changes them even then.
pub(super) fn is_read(buffer: &Buffer) -> bool {
    buffer.role == Role::In && buffer.copies == 1
}

/// The type of the memory in a signature, if there is any, and its type parameters.
pub(super) fn of_run(types: &Types<'_>, valid: &Valid) -> Option<(TokenStream, Vec<TokenStream>)> {
    let (names, each) = (types.given(), anys(valid));
    let world = types.any_window.then(|| quote!(W,));
    let bounded = given(valid).filter(|(_, buffer)| !buffer.window).map(|(this, buffer)| {
        let (any, bound) = (any(&this.name), types.bound(buffer));
        quote!(#any: #bound)
    });
    types.any_given.then(|| (quote!(Buffers<'_, #(#names,)* #world #(#each,)*>), bounded.collect()))
}
