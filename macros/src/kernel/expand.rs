//! A kernel's function, and the kernel as data.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use super::{Argument, Kernel, Reach, Source, Type, TypeParam, words};

/// The name in compiler messages for a device that only the stream determines.
const DEVICE: &str = "StreamThatRunsIt";

pub(super) fn expand(krate: &TokenStream, kernel: &Kernel) -> TokenStream {
    let Kernel { attributes, visibility, name, types, .. } = kernel;
    let function = function(krate, kernel);
    let declared = declared(krate, kernel);
    let here = Span::mixed_site().located_at(name.span());
    // Without bounds: an unmet one is reported at the argument, not again for the whole call.
    let names = types.iter().map(|param| &param.name).collect::<Vec<_>>();
    let marker = match types.is_empty() {
        true => quote_spanned!(here=> struct #name {}),
        false => quote_spanned! {here=>
            struct #name<#(#names),*> {
                types: ::core::marker::PhantomData<fn() -> (#(#names,)*)>,
            }
        },
    };
    let runs = runs(krate, kernel);
    quote! {
        #attributes
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations)]
        #visibility #marker

        #declared
        #runs
    }
}

/// `T: ::typed_nccl::Float,` and `T`. Bounds have spans at their place in the source, where the
/// compiler then points.
fn generics(krate: &TokenStream, kernel: &Kernel) -> (TokenStream, Vec<Ident>) {
    let params = kernel.types.iter().map(|TypeParam { name, bound, more }| {
        let its = located(krate, bound.span());
        let place =
            its.clone().into_iter().next().map_or_else(|| bound.span(), |token| token.span());
        let bound = Ident::new(&bound.to_string(), place);
        quote_spanned!(place=> #name: #its::#bound #more,)
    });
    (params.collect(), kernel.types.iter().map(|param| param.name.clone()).collect())
}

/// The kernel with its type arguments: `axpy<T>`.
fn itself(kernel: &Kernel) -> TokenStream {
    let (name, names) = (&kernel.name, kernel.types.iter().map(|param| &param.name));
    match kernel.types.is_empty() {
        true => quote!(#name),
        false => quote!(#name<#(#names),*>),
    }
}

/// The path of the crate with the span of a place in the source.
fn located(krate: &TokenStream, place: Span) -> TokenStream {
    let mut moved = krate.clone().into_iter().collect::<Vec<_>>();
    moved.iter_mut().for_each(|token| token.set_span(token.span().located_at(place)));
    moved.into_iter().collect()
}

impl Type {
    /// The same, with the path by which the program names its element type.
    pub(super) fn with_path(self, krate: &TokenStream) -> Self {
        match self {
            Self::Scalar(ty) => Self::Scalar(element(krate, ty)),
            Self::Read(ty) => Self::Read(element(krate, ty)),
            Self::Write(ty) => Self::Write(element(krate, ty)),
            Self::Window(ty, reach) => Self::Window(element(krate, ty), reach),
            other => other,
        }
    }
}

fn element(krate: &TokenStream, ty: TokenStream) -> TokenStream {
    let mut tokens = ty.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(word)), None) => words::element(krate, &word).unwrap_or(ty),
        _ => ty,
    }
}

fn function(krate: &TokenStream, kernel: &Kernel) -> TokenStream {
    let Kernel { visibility, name, arguments, .. } = kernel;
    let (generics, _) = generics(krate, kernel);
    let is_borrowed = |argument: &Argument| !matches!(argument.ty, Type::Scalar(_) | Type::Unknown);
    let lifetime = arguments.iter().any(is_borrowed).then(|| quote!('a,));
    let dev = arguments.iter().find(|it| matches!(it.ty, Type::DevComm)).map(|it| &it.name);
    let signature = Signature {
        krate,
        device: Ident::new(DEVICE, Span::mixed_site()),
        world: Ident::new("OfWorld", Span::mixed_site()),
        dev,
        kernel: kernel.name.to_string(),
    };
    let passed: Vec<Passed> = arguments.iter().map(|it| signature.passed(it)).collect();
    let params = passed.iter().map(|it| &it.param);
    let (held, made): (Vec<_>, Vec<_>) = passed.iter().filter_map(|it| it.held.clone()).unzip();
    let bounds = passed.iter().filter_map(|it| it.bound.as_ref());
    let memories = passed.iter().filter_map(|it| it.memory.as_ref());
    let Signature { device, world, .. } = &signature;
    let of_world = dev.is_some().then(|| quote!(#world: #krate::World,));
    let unknown = arguments.iter().filter(|it| matches!(it.ty, Type::Unknown)).map(|it| &it.name);
    let itself = itself(kernel);
    let given = Ident::new("arguments", Span::mixed_site());
    let launch = launch(krate, kernel, &given);
    quote! {
        #[allow(clippy::too_many_arguments)]
        #visibility fn #name<#lifetime #generics #device: #krate::Device, #of_world #(#memories),*>(
            #(#params),*
        ) -> #krate::kernel::Launch<#itself, (#(#held,)*), #device>
        where
            #(#bounds,)*
        {
            #(let _ = #unknown;)*
            let #given = (#(#made,)*);
            #launch
        }
    }
}

/// The names that a kernel's function uses.
struct Signature<'a> {
    krate: &'a TokenStream,
    device: Ident,
    world: Ident,
    /// The argument that is the device communicator.
    dev: Option<&'a Ident>,
    kernel: String,
}

/// An argument of a kernel's function.
struct Passed {
    /// The type parameter for its memory.
    memory: Option<Ident>,
    param: TokenStream,
    /// The type that the launch holds, and the expression that makes it.
    held: Option<(TokenStream, TokenStream)>,
    bound: Option<TokenStream>,
}

impl Signature<'_> {
    fn passed(&self, Argument { name, ty }: &Argument) -> Passed {
        let Self { krate, device, world, dev, kernel } = self;
        let backend = quote!(<#device as #krate::Device>::Backend);
        // Errors about an argument point to its declaration, not to the start of the kernel.
        let here = Span::mixed_site().located_at(name.span());
        let memory = Ident::new(&given(name), here);
        let its = located(krate, name.span());
        let (param, held, made, bound) = match ty {
            Type::Scalar(ty) => {
                let held =
                    (quote!(#krate::kernel::Value<#ty>), quote!(#krate::kernel::value(#name)));
                let param = quote!(#name: #ty);
                return Passed { memory: None, param, held: Some(held), bound: None };
            }
            Type::DevComm => {
                let held = (
                    quote!(#krate::kernel::Dev<'a, #backend>),
                    quote!(#krate::kernel::dev_comm(#name)),
                );
                let param = quote_spanned!(here=> #name: &'a #its::DevComm<#world>);
                let bound = quote_spanned!(here=> #device: #its::kernel::CommunicatesFor<#world>);
                return Passed { memory: None, param, held: Some(held), bound: Some(bound) };
            }
            Type::Unknown => {
                let param = quote!(#name: #memory);
                return Passed { memory: Some(memory), param, held: None, bound: None };
            }
            Type::Read(ty) => (
                quote_spanned!(here=> #name: #memory),
                quote!(#krate::Slice<'a, #ty, #device>),
                quote!(#krate::kernel::ReadAs::<'a, #ty, #device>::read(#name)),
                quote_spanned!(here=> #memory: #its::kernel::ReadAs<'a, #ty, #device>),
            ),
            Type::Write(ty) => (
                quote_spanned!(here=> #name: &'a mut #memory),
                quote!(#krate::SliceMut<'a, #ty, #device>),
                quote!(#krate::kernel::WrittenAs::<#ty, #device>::write(#name)),
                quote_spanned!(here=> #memory: #its::kernel::WrittenAs<#ty, #device> + ?Sized),
            ),
            Type::Window(of, reach) => {
                let (mutable, make, bound) = of_window(reach);
                (
                    quote_spanned!(here=> #name: &'a #mutable #memory),
                    quote!(#krate::kernel::Peers<'a, #backend>),
                    quote!(#krate::kernel::#make::<#of, #world, #memory>(#name, #dev)),
                    quote_spanned!(here=> #memory: #its::kernel::#bound<#of, #world>),
                )
            }
            Type::Barrier => (
                quote_spanned!(here=> #name: #memory),
                quote!(#krate::kernel::BarrierIn<'a, #backend>),
                quote!(#krate::kernel::barrier(#name, #dev, #kernel)),
                quote_spanned!(here=> #memory: #its::kernel::BarrierOf<'a, #world>),
            ),
        };
        Passed { memory: Some(memory), param, held: Some((held, made)), bound: Some(bound) }
    }
}

/// The launch. What is written here has no word `unsafe` but the program's own, before its body in
/// CUDA: no lint would look at another. So a crate that forbids the word launches nothing on a GPU,
/// whatever it puts in the place of the paths written here.
fn launch(krate: &TokenStream, kernel: &Kernel, arguments: &Ident) -> TokenStream {
    let Some(Source { word, .. }) = kernel.cuda else {
        return quote!(#krate::kernel::Launch::on_host(#arguments));
    };
    let call = quote!(#krate::kernel::Launch::new(#arguments));
    let mut block = Group::new(Delimiter::Brace, call);
    block.set_span(word);
    let word = Ident::new("unsafe", word);
    quote!(#word #block)
}

/// The type parameter of an argument as it appears in compiler messages: `GivenForX` for `x`.
fn given(name: &Ident) -> String {
    let name = name.to_string();
    let words = name.trim_start_matches("r#").split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    });
    format!("GivenFor{}", words.collect::<String>())
}

/// How an argument borrows a window, the function that takes it, and the bound on its type.
fn of_window(reach: &Reach) -> (TokenStream, TokenStream, TokenStream) {
    match reach {
        Reach::Whole => (quote!(), quote!(window), quote!(WindowOf)),
        Reach::Written => (quote!(mut), quote!(window_mut), quote!(WindowOf)),
        Reach::Part => (quote!(), quote!(window_slice), quote!(PartOf)),
    }
}

/// The kernel as data.
fn declared(krate: &TokenStream, kernel: &Kernel) -> TokenStream {
    let Kernel { name, types, arguments, launch, .. } = kernel;
    let (generics, names) = generics(krate, kernel);
    let text = name.to_string();
    let here = Span::mixed_site().located_at(name.span());
    let parameters = arguments.iter().map(|Argument { name, ty }| {
        let name = name.to_string();
        match ty {
            Type::Unknown => quote!(#krate::kernel::Parameter::dev_comm(#name)),
            Type::Scalar(ty) => quote!(#krate::kernel::Parameter::scalar::<#ty>(#name)),
            Type::Read(ty) => quote!(#krate::kernel::Parameter::read::<#ty>(#name)),
            Type::Write(ty) => quote!(#krate::kernel::Parameter::write::<#ty>(#name)),
            Type::DevComm => quote!(#krate::kernel::Parameter::dev_comm(#name)),
            Type::Barrier => quote!(#krate::kernel::Parameter::barrier(#name)),
            Type::Window(of, reach) => {
                let make = match reach {
                    Reach::Whole | Reach::Written => quote!(window),
                    Reach::Part => quote!(window_slice),
                };
                quote!(#krate::kernel::Parameter::#make::<#of>(#name))
            }
        }
    });
    let type_names = types.iter().map(|param| param.name.to_string());
    let cuda = option(kernel.cuda.as_ref().map(|source| self::source(krate, source)));
    let [of_host, of_blocks] = ["__host", "__blocks"].map(|name| Ident::new(name, here));
    let body = kernel
        .host
        .as_ref()
        .map(|body| shim(krate, kernel, (&of_host, "Views"), &quote!(), &body.stream()));
    let count = launch
        .blocks
        .as_ref()
        .map(|count| shim(krate, kernel, (&of_blocks, "Extents"), &quote!(-> usize), count));
    let host = option(body.is_some().then(|| quote!(Self::#of_host)));
    let blocks = option(count.is_some().then(|| quote!(Self::#of_blocks)));
    let threads = launch.threads.clone().unwrap_or_else(|| quote!(256));
    let needs = launch.needs.unwrap_or(0);
    let itself = itself(kernel);
    quote! {
        impl<#generics> #krate::kernel::Declared for #itself {
            const KERNEL: &'static #krate::kernel::Kernel = &#krate::kernel::Kernel {
                name: #text,
                parameters: &[#(#parameters),*],
                types: &[#((#type_names, <#names as #krate::Element>::DTYPE)),*],
                cuda: #cuda,
                host: #host,
                threads: #threads,
                blocks: #blocks,
                needs: #needs,
            };
        }

        impl<#generics> #itself {
            #body
            #count
        }
    }
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn source(krate: &TokenStream, source: &Source) -> TokenStream {
    let Source { is_ptx, is_file, text, line, .. } = source;
    let kind = match (is_ptx, is_file) {
        (true, _) => quote!(Ptx),
        (false, true) => quote!(Unit),
        (false, false) => quote!(Body),
    };
    let (text, file, line) = match is_file {
        true => (quote!(::core::include_str!(#text)), quote!(#text), Literal::u32_suffixed(1)),
        false => {
            let line = u32::try_from(*line).unwrap_or(1).max(1);
            (text.clone(), quote!(::core::file!()), Literal::u32_suffixed(line))
        }
    };
    quote! {
        #krate::kernel::Source {
            text: #text,
            kind: #krate::kernel::SourceKind::#kind,
            file: #file,
            line: #line,
        }
    }
}

/// A function that takes the arguments one by one and runs the body. It has the kernel's span, for
/// compiler messages about it.
fn shim(
    krate: &TokenStream,
    kernel: &Kernel,
    (name, takes): (&Ident, &str),
    gives: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let here = name.span();
    let from = Ident::new("arguments", Span::mixed_site());
    let lines = kernel.arguments.iter().map(|Argument { name, ty }| {
        let value = match ty {
            Type::Scalar(ty) => quote!(#from.scalar::<#ty>()),
            Type::DevComm | Type::Unknown | Type::Barrier if takes == "Extents" => {
                quote!(#from.device())
            }
            Type::DevComm | Type::Unknown => quote!(#krate::HostDevComm::taken(&mut #from)),
            Type::Barrier => quote!(#krate::HostBarrier::taken(&mut #from)),
            Type::Read(_) | Type::Write(_) | Type::Window(..) if takes == "Extents" => {
                quote!(#from.memory())
            }
            Type::Read(ty) => quote!(#from.read::<#ty>()),
            Type::Write(ty) => quote!(#from.write::<#ty>()),
            Type::Window(of, _) => quote!(#krate::HostWindow::<#of>::taken(&mut #from)),
        };
        quote! {
            #[allow(unused_variables)]
            let #name = #value;
        }
    });
    let takes = Ident::new(takes, here);
    quote_spanned! {here=>
        #[allow(unused_mut, unused_variables)]
        fn #name(mut #from: #krate::kernel::#takes<'_>) #gives {
            #(#lines)*
            #body
        }
    }
}

/// The devices that it runs on.
fn runs(krate: &TokenStream, kernel: &Kernel) -> TokenStream {
    let names = kernel.types.iter().map(|param| &param.name);
    let itself = itself(kernel);
    let device = Ident::new(DEVICE, Span::mixed_site());
    let on = match (&kernel.cuda, &kernel.host) {
        (Some(_), None) => quote!(#krate::kernel::Gpu<#device>),
        (None, Some(_)) => quote!(#krate::Host<#device>),
        // Also after an error, which is reported already.
        _ => quote!(#device),
    };
    let here = Span::mixed_site().located_at(kernel.name.span());
    let its = located(krate, kernel.name.span());
    quote_spanned! {here=>
        impl<#(#names,)* #device> #its::kernel::RunsOn<#on> for #itself where #on: #krate::Device {}
    }
}
