//! The parameters that a plan is bound with.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::quote;

use crate::ast::text;
use crate::valid::{Kind, Known, Valid};

/// The parameters that the caller passes, without constants of the program. The extent of a single
/// axis is the communicator's size; of two parameters with one name, which was reported, only the
/// first is passed.
pub(super) fn given(valid: &Valid) -> impl Iterator<Item = &Known> {
    let mesh = valid.plan.axes.len() > 1;
    let mut names = HashSet::new();
    valid
        .params
        .iter()
        .filter(move |known| mesh || known.kind != Kind::Axis)
        .filter(|known| known.kind != Kind::Constant)
        .filter(move |known| names.insert(text(&known.name)))
}

/// The lists that each run passes.
pub(super) fn passed(valid: &Valid) -> impl Iterator<Item = &Known> {
    given(valid).filter(|known| known.kind == Kind::Counts)
}

pub(super) fn params(valid: &Valid) -> TokenStream {
    let fields = given(valid).map(|Known { name, docs, kind, what }| {
        let (kind, says) = match kind {
            Kind::Axis => {
                (quote!(usize), format!("How many ranks there are along `{name}`: {what}."))
            }
            Kind::Number | Kind::Constant => (quote!(usize), format!("`{name}`: {what}.")),
            Kind::List => (quote!(&'a [usize]), format!("`{name}`, each of them {what}.")),
            Kind::Counts => (
                quote!(&'a [usize]),
                format!("The most of each of `{name}`, which a run passes: {what}."),
            ),
        };
        quote!(#docs #[doc = #says] pub #name: #kind)
    });
    let fields: Vec<TokenStream> = fields.collect();
    let lifetime = lifetime(valid);
    if fields.is_empty() {
        return TokenStream::new();
    }
    quote! {
        /// The parameters that the plan is bound with, the same on every rank.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Params #lifetime {
            #(#fields,)*
        }
    }
}

fn lifetime(valid: &Valid) -> Option<TokenStream> {
    has_list(valid).then(|| quote!(<'a>))
}

/// Whether the parameters borrow a list.
pub(super) fn has_list(valid: &Valid) -> bool {
    given(valid).any(|known| matches!(known.kind, Kind::List | Kind::Counts))
}
