//! The module of a plan. After an error as much of it as possible is generated, so that its uses do
//! not cause further errors.

mod bound;
mod buffers;
mod claims;
mod closures;
mod docs;
mod params;
mod steps;
mod types;

use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use typed_nccl_plan::check::{Accepted, check};

use crate::area::Area;
use crate::ast;
use crate::fault::Fault;
use crate::valid::{Valid, valid};
use crate::{parse, tell};
use types::Types;

/// The module of the declared plan, and its errors. The first token is a group with the path of the
/// crate.
pub(crate) fn plan(tokens: TokenStream) -> TokenStream {
    let (krate, tokens) = with_path(tokens);
    let mut faults = Vec::new();
    let Some(plan) = parse::plan(tokens, &mut faults) else { return told(faults, None) };
    let valid = valid(&plan, &mut faults);
    let accepted = if faults.is_empty() {
        check(&valid.plan)
            .map_err(|rejected| faults.extend(tell::faults(&rejected, &valid.areas)))
            .ok()
    } else {
        None
    };
    let doubts = accepted.as_ref().map(|accepted| {
        let doubts = tell::doubts(accepted, &valid.plan.files, &valid.areas);
        doubts.iter().map(Fault::warning).collect()
    });
    let module = module(&krate, &plan, &valid, (accepted.as_ref(), doubts.unwrap_or_default()));
    let told = told(faults, Some(&plan.conditions));
    quote!(#told #module)
}

/// The path of the crate, and the user's tokens.
pub(crate) fn with_path(tokens: TokenStream) -> (TokenStream, TokenStream) {
    let mut tokens = tokens.into_iter();
    let krate = match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            group.stream()
        }
        _ => quote!(::typed_nccl),
    };
    (krate, tokens.collect())
}

/// The errors, by place. A plan that `cfg` disables has none.
fn told(mut faults: Vec<Fault>, conditions: Option<&TokenStream>) -> TokenStream {
    faults.sort_by_key(|fault| fault.area.start());
    faults
        .iter()
        .map(|fault| {
            let error = fault.tokens();
            quote!(#conditions #error)
        })
        .collect()
}

fn module(
    krate: &TokenStream,
    plan: &ast::Plan,
    valid: &Valid,
    (accepted, doubts): (Option<&Accepted>, TokenStream),
) -> TokenStream {
    let ast::Plan { attributes, visibility, name, .. } = plan;
    let types = Types::new(krate, plan, valid);
    let docs = docs::module(valid, accepted);
    let declaration = declaration(krate, valid, accepted);
    let params = params::params(valid);
    let buffers = buffers::buffers(&types, valid);
    let steps = steps::steps(&types, valid);
    let closures = closures::closures(&types, valid);
    let bound = bound::bound(&types, valid);
    let claims = claims::claims(&valid.plan);
    quote! {
        #attributes
        #(#[doc = #docs])*
        #[allow(dead_code, unreachable_pub, clippy::too_many_arguments)]
        #visibility mod #name {
            #doubts
            #declaration
            #params
            #buffers
            #steps
            #closures
            #bound
            #claims
        }
    }
}

/// The plan as data, the sizes it was checked at, and the places of its statements for run-time
/// errors.
fn declaration(krate: &TokenStream, valid: &Valid, accepted: Option<&Accepted>) -> TokenStream {
    // A refused plan never runs, so it needs no data.
    let statements: &[Area] = accepted.map_or(&[], |_| &valid.statements);
    // Numbers and strings always encode.
    let data = accepted.map(|accepted| postcard::to_stdvec(&(&valid.plan, accepted)));
    let data = Literal::byte_string(&data.and_then(Result::ok).unwrap_or_default());
    // Imported, since a call has the place of its first token, and the crate's path is not in the
    // plan.
    let import = (!statements.is_empty()).then(|| quote!(use #krate::plan::here;));
    let sites = statements.iter().map(|area| quote_spanned!(area.first=> here()));
    let count = statements.len();
    quote! {
        #import

        static SITES: [#krate::error::Site; #count] = [#(#sites),*];
        static DECLARATION: #krate::plan::Declaration = #krate::plan::Declaration::new(#data, &SITES);

        /// The plan as data.
        pub fn plan() -> &'static #krate::plan::Plan {
            match DECLARATION.plan() {
                ::core::option::Option::Some(plan) => plan,
                // A plan that is refused does not compile.
                ::core::option::Option::None => ::core::unreachable!(),
            }
        }
    }
}
