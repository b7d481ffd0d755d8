//! Binding a plan, and running it.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

use super::types::Types;
use super::{buffers, closures, params};
use crate::ast::text;
use crate::valid::{Kind, Known, Valid};

pub(super) fn bound(types: &Types<'_>, valid: &Valid) -> TokenStream {
    let krate = types.krate;
    let (names, bounded) = (types.names(), types.bounded());
    let (bind, run) = (bind(types, valid), run(types, valid));
    let steps = closures::begin(types, valid);
    quote! {
        #bind

        /// The plan, bound to a communicator.
        pub struct Bound<#(#names,)* W: #krate::World> {
            bound: #krate::plan::Bound<W>,
            types: ::core::marker::PhantomData<fn() -> (#(#names,)*)>,
        }

        impl<#(#bounded,)* W: #krate::World> Bound<#(#names,)* W> {
            #run

            #steps

            /// A handle of everything that its runs have enqueued until now, on all of its streams.
            #[track_caller]
            pub fn submitted<S: #krate::State + #krate::CanEnqueue>(
                &self,
                comm: &#krate::Communicator<W, S>,
            ) -> #krate::Result<#krate::Work<W::Device>> {
                self.bound.submitted(comm)
            }

            /// Describes the plan at these sizes, on this rank and on the others, as text.
            pub fn describe(&self) -> ::std::string::String {
                self.bound.describe()
            }

            /// Describes it as an SVG picture.
            pub fn to_svg(&self) -> ::std::string::String {
                self.bound.to_svg()
            }

            /// Describes it as a Mermaid diagram.
            pub fn to_mermaid(&self) -> ::std::string::String {
                self.bound.to_mermaid()
            }

            /// Estimates how long a run takes on machines of this topology.
            pub fn estimate(&self, topology: &#krate::plan::cost::Topology) -> #krate::plan::cost::Estimate {
                self.bound.estimate(topology)
            }

            /// The sizes and parameters that it is bound to.
            pub fn sizes(&self) -> &#krate::plan::Sizes {
                self.bound.sizes()
            }

            /// Sets when the operations of later runs start, as far as the plan leaves that open:
            /// for tests, on the host backend.
            pub fn set_timing(&mut self, timing: #krate::plan::Timing) {
                self.bound.set_timing(timing);
            }
        }

        /// The interface that every bound plan has, such as its schedule.
        impl<#(#bounded,)* W: #krate::World> ::core::convert::AsRef<#krate::plan::Bound<W>>
            for Bound<#(#names,)* W>
        {
            fn as_ref(&self) -> &#krate::plan::Bound<W> {
                &self.bound
            }
        }

        /// The same interface, mutably.
        impl<#(#bounded,)* W: #krate::World> ::core::convert::AsMut<#krate::plan::Bound<W>>
            for Bound<#(#names,)* W>
        {
            fn as_mut(&mut self) -> &mut #krate::plan::Bound<W> {
                &mut self.bound
            }
        }
    }
}

fn bind(types: &Types<'_>, valid: &Valid) -> TokenStream {
    let krate = types.krate;
    let (names, bounded) = (types.names(), types.bounded());
    let given: Vec<TokenStream> = params::given(valid)
        .map(|Known { name, kind, .. }| {
            let called = text(name);
            match kind {
                Kind::Axis => quote!(.axis(#called, params.#name)),
                Kind::Number | Kind::Constant => quote!(.number(#called, params.#name)),
                Kind::List | Kind::Counts => quote!(.list(#called, params.#name)),
            }
        })
        .collect();
    let constants = valid.params.iter().filter(|known| known.kind == Kind::Constant);
    let constants = constants.map(|Known { name, .. }| {
        let called = text(name);
        quote!(.number(#called, super::#name))
    });
    let elements = names.iter().map(|name| {
        let called = text(name);
        quote!(.element::<#name>(#called))
    });
    let plan = &valid.plan.name;
    let lifetime = params::has_list(valid).then(|| quote!(<'_>));
    let params = (!given.is_empty()).then(|| quote!(, params: Params #lifetime));
    // The compiler's errors about it point to the plan's name.
    let name = Ident::new("bind", types.plan.span());
    quote! {
        /// Binds the plan to a communicator. Every rank calls it, with the same parameters.
        ///
        /// # Errors
        ///
        /// The plan was not declared for this communicator or these parameters, or they differ
        /// between ranks.
        #[track_caller]
        pub fn #name<#(#bounded,)* W: #krate::World>(
            comm: &mut #krate::Communicator<W, impl #krate::CanEnqueue>
            #params
        ) -> #krate::Result<Bound<#(#names,)* W>> {
            let values = #krate::plan::Values::new() #(#given)* #(#constants)* #(#elements)*;
            let bound = #krate::plan::Bound::declared(comm, #plan, &DECLARATION, &values)?;
            ::core::result::Result::Ok(Bound { bound, types: ::core::marker::PhantomData })
        }
    }
}

fn run(types: &Types<'_>, valid: &Valid) -> TokenStream {
    let (krate, names) = (types.krate, types.names());
    let arguments: Vec<TokenStream> = buffers::given(valid)
        .map(|(declared, buffer)| {
            let (name, called) = (&declared.name, text(&declared.name));
            let method = if buffers::is_read(buffer) { quote!(read) } else { quote!(write) };
            quote!(.#method(#called, buffers.#name))
        })
        .collect();
    let passed = params::passed(valid).map(|Known { name, .. }| {
        let called = text(name);
        quote!(.counts(#called, buffers.#name))
    });
    let (memory, any) = buffers::of_run(types, valid).unzip();
    let memory = memory.map(|memory| quote!(, buffers: #memory));
    let any = any.filter(|any| !any.is_empty()).map(|any| quote!(<#(#any),*>));
    // One identifier: two with different spans may be two variables.
    let given = Ident::new("steps", types.plan.span());
    let (steps, runner) = if valid.computed.is_empty() {
        (None, quote!(&mut ()))
    } else {
        (
            Some(quote_spanned!(types.plan.span()=> , #given: &mut impl Steps<#(#names,)* W>)),
            quote!(&mut Runner(#given, ::core::marker::PhantomData)),
        )
    };
    let name = Ident::new("run", types.plan.span());
    // A plan that runs once was not checked against a second run, so this takes it by value. Errors
    // about the receiver point to the plan's name.
    let this = Ident::new("self", types.plan.span());
    let (receiver, once) = match valid.plan.replayed {
        true => (quote!(&mut #this), None),
        false => {
            (quote!(mut #this), Some(" The plan is `#[once]`: bind it again to run it again."))
        }
    };
    let docs = format!(
        " Runs the plan once, on all ranks. The host does not wait for it.{}",
        once.unwrap_or_default()
    );
    quote! {
        #[doc = #docs]
        ///
        /// # Errors
        ///
        /// Memory does not fit the plan, a step failed, or the communicator did.
        #[track_caller]
        #[allow(non_camel_case_types)]
        pub fn #name #any(
            #receiver,
            comm: &#krate::Communicator<W, impl #krate::CanEnqueue>
            #memory
            #steps
        ) -> #krate::Result<()> {
            #this.bound.on(comm) #(#arguments)* #(#passed)* .run(#runner)
        }
    }
}
