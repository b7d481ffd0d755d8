//! The steps as closures: a builder with a method for each step, which implements the plan's steps
//! once it has all of them.

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::quote;

use super::docs;
use super::steps::{argument, arguments};
use super::types::{Types, ident};
use crate::valid::{Computed, Valid};

pub(super) fn closures(types: &Types<'_>, valid: &Valid) -> TokenStream {
    if valid.computed.is_empty() {
        return TokenStream::new();
    }
    let krate = types.krate;
    let (names, bounded) = (types.names(), types.bounded());
    let slots: Vec<Ident> = (0..valid.computed.len()).map(slot).collect();
    let each = (0..).zip(&valid.computed);
    let traits = each.clone().map(|(_, computed)| closure(types, computed));
    let methods = each.clone().map(|(nth, computed)| given(types, &slots, nth, computed));
    let computes = each.clone().map(|(_, computed)| {
        let computes = trait_name(computed);
        quote!(#computes<#(#names,)* W>)
    });
    let calls = each.map(|(nth, computed)| {
        let (name, nth) = (&computed.name, Literal::usize_unsuffixed(nth));
        let (arguments, passed) = arguments(types, computed);
        quote! {
            fn #name(&mut self, #(#arguments,)* stream: &#krate::Stream<W::Device>) -> #krate::Result<()> {
                self.steps.#nth.compute(#(#passed,)* stream)
            }
        }
    });
    let steps = pointing_at(
        types.plan.span(),
        quote! {
            impl<#(#bounded,)* W: #krate::World, #(#slots),*> Steps<#(#names,)* W>
                for Closures<#(#names,)* W, #(#slots),*>
            where
                #(#slots: #computes,)*
            {
                #(#calls)*
            }
        },
    );
    quote! {
        /// The plan's steps as closures, one each. Once complete, they implement [`Steps`].
        /// `Bound::steps` begins them.
        #[must_use = "closures are steps for `run`"]
        pub struct Closures<#(#names,)* W, #(#slots),*> {
            steps: (#(#slots,)*),
            types: ::core::marker::PhantomData<fn() -> (#(#names,)* W,)>,
        }

        #(#traits)*
        #(#methods)*

        #steps
    }
}

/// `Bound::steps`.
pub(super) fn begin(types: &Types<'_>, valid: &Valid) -> Option<TokenStream> {
    let (krate, names) = (types.krate, types.names());
    let none = valid.computed.iter().map(|_| quote!(#krate::plan::NoClosure));
    let none: Vec<TokenStream> = none.collect();
    let once = " They are made before `run` is called, which takes the plan.";
    let docs = format!(
        " The plan's steps as closures: give each its own, by its name, then all of them to `run`.{}",
        if valid.plan.replayed { "" } else { once }
    );
    (!none.is_empty()).then(|| {
        quote! {
            #[doc = #docs]
            pub fn steps(&self) -> Closures<#(#names,)* W, #(#none),*> {
                Closures { steps: (#(#none,)*), types: ::core::marker::PhantomData }
            }
        }
    })
}

/// The type parameter of a step's closure.
fn slot(nth: usize) -> Ident {
    ident(&format!("Step{nth}"))
}

fn trait_name(computed: &Computed) -> Ident {
    quote::format_ident!("closure_for_{}", computed.name)
}

/// The trait of a step's closure, which the placeholder of a missing one does not implement.
fn closure(types: &Types<'_>, computed: &Computed) -> TokenStream {
    let (krate, plan, name) = (types.krate, types.plan, &computed.name);
    let bounded = types.bounded();
    let names = types.names();
    let (computes, signature) = (trait_name(computed), signature(types, computed));
    let (arguments, passed) = arguments(types, computed);
    let message = format!("the step `{name}` of the plan `{plan}` has no closure");
    let label = format!("lacks `{name}`");
    let called = computed.arguments.iter().map(|(name, _)| format!("{name}, "));
    let called: String = called.collect();
    let note = format!("give it one: `.{name}(|{called}stream| ..)`");
    let given = pointing_at(
        plan.span(),
        quote! {
            impl<#(#bounded,)* W: #krate::World, Step> #computes<#(#names,)* W> for #krate::plan::Closure<Step>
            where
                Step: #signature,
            {
                fn compute(&mut self, #(#arguments,)* stream: &#krate::Stream<W::Device>) -> #krate::Result<()> {
                    (self.0)(#(#passed,)* stream)
                }
            }
        },
    );
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #[diagnostic::on_unimplemented(message = #message, label = #label, note = #note)]
        pub trait #computes<#(#bounded,)* W: #krate::World> {
            fn compute(&mut self, #(#arguments,)* stream: &#krate::Stream<W::Device>) -> #krate::Result<()>;
        }

        #given
    }
}

fn signature(types: &Types<'_>, computed: &Computed) -> TokenStream {
    let krate = types.krate;
    let gets = computed.arguments.iter().map(|(_, shape)| argument(types, shape));
    quote!(FnMut(#(#gets,)* &#krate::Stream<W::Device>) -> #krate::Result<()>)
}

/// The method that takes a step's closure while there is none.
fn given(types: &Types<'_>, slots: &[Ident], nth: usize, computed: &Computed) -> TokenStream {
    let krate = types.krate;
    let (names, bounded) = (types.names(), types.bounded());
    let (name, own, signature) = (&computed.name, &slots[nth], signature(types, computed));
    let (before, after) = (&slots[..nth], &slots[nth + 1..]);
    let held = |at: usize| ident(&format!("step_{at}"));
    let held_before: Vec<Ident> = (0..nth).map(held).collect();
    let held_after: Vec<Ident> = (nth + 1..slots.len()).map(held).collect();
    let says = docs::method(computed);
    quote! {
        impl<#(#bounded,)* W: #krate::World, #(#before,)* #(#after,)*>
            Closures<#(#names,)* W, #(#before,)* #krate::plan::NoClosure, #(#after,)*>
        {
            #(#[doc = #says])*
            pub fn #name<#own>(
                self,
                step: #own,
            ) -> Closures<#(#names,)* W, #(#before,)* #krate::plan::Closure<#own>, #(#after,)*>
            where
                #own: #signature,
            {
                let (#(#held_before,)* _, #(#held_after,)*) = self.steps;
                let steps = (#(#held_before,)* #krate::plan::Closure(step), #(#held_after,)*);
                Closures { steps, types: ::core::marker::PhantomData }
            }
        }
    }
}

/// Tokens with this span for errors, except the path of the crate.
fn pointing_at(place: Span, tokens: TokenStream) -> TokenStream {
    let pointing = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut inside = Group::new(group.delimiter(), pointing_at(place, group.stream()));
            inside.set_span(place);
            inside.into()
        }
        TokenTree::Ident(name) if name == "$crate" => name.into(),
        mut token => {
            token.set_span(place);
            token
        }
    });
    pointing.collect()
}
