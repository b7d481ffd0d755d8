//! The user's compute steps: a trait, and the code that calls its methods.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{quote, quote_spanned};

use typed_nccl_plan::ir::ElementType;

use super::docs;
use super::types::{Types, ident};
use crate::area::Area;
use crate::ast::text;
use crate::valid::{Computed, Holds, Shape, Valid};

pub(super) fn steps(types: &Types<'_>, valid: &Valid) -> TokenStream {
    if valid.computed.is_empty() {
        return TokenStream::new();
    }
    let (krate, plan) = (types.krate, types.plan);
    let (names, bounded) = (types.names(), types.bounded());
    let methods = valid.computed.iter().map(|computed| method(types, computed));
    let calls = valid.computed.iter().map(|computed| call(types, computed));
    let message = format!("`{{Self}}` does not compute the steps of the plan `{plan}`");
    let note = note(types, valid);
    // Errors about the trait point to the plan's name.
    let definition = quote_spanned! {plan.span()=>
        pub trait Steps<#(#bounded,)* W: #krate::World> {
            #(#methods)*
        }
    };
    quote! {
        /// The plan's compute steps: your own work, in stream order with the communication.
        #[diagnostic::on_unimplemented(
            message = #message,
            label = "computes no steps of this plan",
            note = #note,
        )]
        #definition

        /// Passes each step its memory, with its type.
        struct Runner<'s, S, #(#names,)* W>(
            &'s mut S,
            ::core::marker::PhantomData<fn() -> (#(#names,)* W,)>,
        );

        impl<#(#bounded,)* W, S> #krate::plan::Steps<W> for Runner<'_, S, #(#names,)* W>
        where
            W: #krate::World,
            S: Steps<#(#names,)* W>,
        {
            fn step(&mut self, call: &mut #krate::plan::Call<'_, W>) -> #krate::Result<()> {
                match call.name() {
                    #(#calls)*
                    _ => ::core::result::Result::Ok(()),
                }
            }
        }
    }
}

/// The code that the user has to write, with the types of this call.
fn note(types: &Types<'_>, valid: &Valid) -> String {
    let plan = types.plan;
    let generic = |name: &Ident| format!("{{{name}}}");
    let names: String = types.names().into_iter().map(|name| generic(name) + ", ").collect();
    let methods = valid.computed.iter().map(|Computed { name, arguments, .. }| {
        let arguments = arguments.iter().map(|(name, shape)| {
            let (holds, one) = match shape {
                Shape::Number => return format!("{name}: usize, "),
                Shape::Read(holds) => (holds, "Slice"),
                Shape::Write(holds) | Shape::Update(holds) => (holds, "SliceMut"),
            };
            let element = match &holds.element {
                ElementType::Generic(name) => format!("{{{name}}}"),
                element => element.to_string(),
            };
            let one = match (holds.array, one) {
                (false, one) => one,
                (true, "Slice") => "plan::Slices",
                (true, _) => "plan::SlicesMut",
            };
            format!("{name}: {one}<'_, {element}, Host<Tag>>, ")
        });
        let arguments: String = arguments.collect();
        format!(
            "    fn {name}(&mut self, {arguments}stream: &Stream<Host<Tag>>) -> Result<()> {{{{ .. }}}}\n"
        )
    });
    let methods: String = methods.collect();
    format!(
        "write `impl<Tag> {plan}::Steps<{names}Host<Tag>> for {{Self}}`, on GPUs with `Cuda<Tag>` for `Host<Tag>`, in code for all devices `impl<D: Device>` with `D` for it, and in it\n{}",
        methods.trim_end()
    )
}

fn method(types: &Types<'_>, computed: &Computed) -> TokenStream {
    let krate = types.krate;
    let Computed { name, docs, area, .. } = computed;
    let (arguments, _) = arguments(types, computed);
    let says = docs::method(computed);
    // Errors about the method point to the step.
    let Area { first, last } = area;
    let begin = quote_spanned!(*first=> fn #name);
    let definition = quote_spanned! {*last=>
        #begin(&mut self, #(#arguments,)* stream: &#krate::Stream<W::Device>) -> #krate::Result<()>;
    };
    quote! {
        #docs
        #(#[doc = #says])*
        ///
        /// # Errors
        ///
        /// Any failure; it ends the run.
        #definition
    }
}

/// A step's arguments: with types, and by name only.
pub(super) fn arguments(types: &Types<'_>, computed: &Computed) -> (Vec<TokenStream>, Vec<Ident>) {
    let names: Vec<Ident> = computed.arguments.iter().map(|(name, _)| ident(name)).collect();
    let typed = computed.arguments.iter().zip(&names).map(|((_, shape), name)| {
        let kind = argument(types, shape);
        quote!(#name: #kind)
    });
    (typed.collect(), names)
}

pub(super) fn argument(types: &Types<'_>, shape: &Shape) -> TokenStream {
    let krate = types.krate;
    let (holds, one, several) = match shape {
        Shape::Number => return quote!(usize),
        Shape::Read(holds) => (holds, quote!(Slice), quote!(Slices)),
        Shape::Write(holds) | Shape::Update(holds) => (holds, quote!(SliceMut), quote!(SlicesMut)),
    };
    let element = types.element(&holds.element);
    match holds.array {
        true => quote!(#krate::plan::#several<'_, #element, W>),
        false => quote!(#krate::#one<'_, #element, W::Device>),
    }
}

/// The match arm that calls a method. Numbers, reads and writes are counted separately; updated
/// memory counts as both, and is passed as written.
fn call(types: &Types<'_>, computed: &Computed) -> TokenStream {
    let name = &computed.name;
    let called = text(name);
    let (mut numbers, mut reads, mut writes) = (0, 0, 0);
    let next = |count: &mut usize| {
        *count += 1;
        Literal::usize_unsuffixed(*count - 1)
    };
    let names: Vec<Ident> =
        (0..computed.arguments.len()).map(|nth| ident(&format!("argument_{nth}"))).collect();
    let takes = computed.arguments.iter().zip(&names).map(|((_, shape), to)| match shape {
        Shape::Number => {
            let nth = next(&mut numbers);
            quote!(let #to = call.number(#nth)?;)
        }
        Shape::Read(Holds { element, array }) => {
            let (nth, element) = (next(&mut reads), types.element(element));
            let method = ident(if *array { "reads" } else { "read" });
            quote!(let #to = call.#method::<#element>(#nth)?;)
        }
        Shape::Write(Holds { element, array }) | Shape::Update(Holds { element, array }) => {
            if matches!(shape, Shape::Update(_)) {
                reads += 1;
            }
            let (nth, element) = (next(&mut writes), types.element(element));
            let method = ident(if *array { "writes" } else { "write" });
            quote!(let #to = call.#method::<#element>(#nth)?;)
        }
    });
    quote! {
        #called => {
            #(#takes)*
            self.0.#name(#(#names,)* call.stream())
        }
    }
}
