//! The type of an argument.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::quote;

use super::{Reach, Type, TypeParam, words};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;
use crate::parse::cursor::Cursor;

pub(super) fn ty(inside: &mut Cursor, types: &[TypeParam]) -> Parsed<Type> {
    let first = inside.span();
    if inside.is_punct(0, "*") {
        let fault = Fault::new(first, "a kernel takes slices, not pointers");
        return Err(fault.help(
            "write `&[f32]` or `&mut [f32]`: the body in CUDA is given the pointer and the length",
        ));
    }
    if !inside.take_punct("&") {
        return by_value(inside, types);
    }
    if inside.is_punct(0, "'") {
        // Reported where it is declared.
        inside.next();
        inside.next();
    }
    let is_written = inside.take_word("mut");
    if inside.take_word("DevComm") {
        if is_written {
            let fault = Fault::new(inside.last(), "a kernel takes a device communicator as it is");
            return Err(fault.help("write `&DevComm`"));
        }
        if inside.is_punct(0, "<") {
            let title = "a kernel takes the device communicator of whatever communicator";
            return Err(Fault::new(inside.span(), title).help("write `&DevComm`"));
        }
        return Ok(Type::DevComm);
    }
    for (word, is_part) in [("Window", false), ("WindowSlice", true)] {
        if !inside.take_word(word) {
            continue;
        }
        return window(inside, types, word, (is_part, is_written));
    }
    if inside.take_word("Barrier") {
        let fault = Fault::new(inside.last(), "a kernel takes a barrier by value");
        return Err(fault.help("write `Barrier`: it is the number of one of the `&DevComm`'s"));
    }
    if let Some(fault) = word(inside).and_then(|word| no_argument(first, &word)) {
        return Err(fault);
    }
    if !inside.is_group(0, Delimiter::Bracket) {
        let fault = inside.expected("`[` and an element type");
        return Err(fault
            .help("memory is `&[f32]` or `&mut [f32]`; a scalar is taken by value, as `a: f32`"));
    }
    let mut list = inside.group(Delimiter::Bracket, "`[` and an element type")?;
    let of = element(&mut list, types, false)?;
    if list.is_punct(0, ";") {
        let fault = Fault::new(list.span(), "a kernel takes slices, of any length");
        return Err(fault.help("write `&[f32]`; the body in CUDA is given the length"));
    }
    list.end("`]` after the element type")?;
    Ok(if is_written { Type::Write(of) } else { Type::Read(of) })
}

/// A type that is not a reference.
fn by_value(inside: &mut Cursor, types: &[TypeParam]) -> Parsed<Type> {
    if let Some(word @ ("DevComm" | "Window" | "WindowSlice")) = word(inside).as_deref() {
        let right = if word == "DevComm" { word.to_owned() } else { format!("{word}<f32>") };
        let fault = Fault::new(inside.span(), format!("a kernel takes a `{word}` by reference"));
        return Err(fault.help(format!("write `&{right}`")));
    }
    if inside.is_group(0, Delimiter::Bracket) {
        let fault = Fault::new(inside.span(), "a kernel takes memory by reference");
        return Err(fault.help("write `&[f32]` for what it reads, `&mut [f32]` for what it writes"));
    }
    if inside.take_word("Barrier") {
        return Ok(Type::Barrier);
    }
    element(inside, types, true).map(Type::Scalar)
}

/// The part after the word for a window, or for part of one.
fn window(
    inside: &mut Cursor,
    types: &[TypeParam],
    word: &str,
    (is_part, is_written): (bool, bool),
) -> Parsed<Type> {
    let reach = match (is_part, is_written) {
        (true, true) => {
            let fault = Fault::new(inside.last(), "a kernel writes whole windows");
            let help = "write `&mut Window<f32>`, and take where it writes as a `usize`";
            return Err(fault.help(help));
        }
        (true, false) => Reach::Part,
        (false, true) => Reach::Written,
        (false, false) => Reach::Whole,
    };
    inside.punct("<", &format!("and an element type, as in `&{word}<f32>`"))?;
    let of = element(inside, types, false)?;
    if inside.is_punct(0, ",") {
        let title = "a kernel takes windows of whatever communicator and kind";
        let mutable = if is_written { "mut " } else { "" };
        let help = format!("write `&{mutable}{word}<{of}>`");
        let fault = Fault::new(inside.span(), title).help(help);
        inside.skip_to(|inside| inside.is_punct(0, ">"));
        return Err(fault);
    }
    inside.punct(">", "after the element type")?;
    Ok(Type::Window(of, reach))
}

/// The next word.
pub(super) fn word(cursor: &Cursor) -> Option<String> {
    match cursor.peek(0) {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

/// Types of the host program, which kernels take in another form.
fn no_argument(place: Span, word: &str) -> Option<Fault> {
    let help = match word {
        "Buffer" | "Slice" | "SliceMut" | "Vec" | "Box" => {
            "write `&[f32]` or `&mut [f32]`: buffers, windows and views of them are given to it"
        }
        "Communicator" => {
            "write `&DevComm`: `comm.dev_comm(..)` makes what a kernel communicates with"
        }
        "Stream" => "leave it out: the stream is the one that runs it, `stream.run(..)`",
        _ => return None,
    };
    Some(Fault::new(place, format!("a kernel does not take a `{word}`")).help(help))
}

/// The tokens of an element type: a word, or a path that ends with one.
fn element(cursor: &mut Cursor, types: &[TypeParam], by_value: bool) -> Parsed<TokenStream> {
    let mut name = cursor.name("an element type, as `f32`")?;
    let mut path = quote!(#name);
    while cursor.is_punct(0, "::") {
        path.extend(cursor.next());
        path.extend(cursor.next());
        name = cursor.name("an element type, as `f16`")?;
        path.extend(quote!(#name));
    }
    let is_path = path.clone().into_iter().count() > 1;
    if types.iter().any(|known| name == known.name) || is_path {
        return Ok(path);
    }
    // The macro's crate has no path yet: `expand` adds it.
    let known = words::element(&TokenStream::new(), &name).is_some();
    if known || by_value && words::is_value(&name) {
        return Ok(path);
    }
    if words::is_value(&name) {
        let fault = Fault::new(name.span(), format!("device memory does not hold `{name}`"));
        return Err(
            fault.help("it holds NCCL's data types: `u64` is as wide as `usize`, `u8` as `bool`")
        );
    }
    let text = name.to_string();
    if let Some(fault) = no_argument(name.span(), &text) {
        return Err(fault);
    }
    if words::is_no_element(&text) {
        let fault = Fault::new(name.span(), format!("NCCL has no `{text}`"));
        return Err(fault.help(format!("its types are {}", words::list())));
    }
    let near = words::in_rust(&text).or_else(|| nearest(&text, words::types()));
    let near = near.map(|near| format!("did you mean `{near}`?"));
    let is_parameter = text.chars().count() < 3 && text.starts_with(char::is_uppercase);
    let help = near.filter(|_| !is_parameter).unwrap_or_else(|| match is_parameter {
        true => format!("a kernel for several types declares them: `fn name<{text}: Float>(..)`"),
        false => format!(
            "memory is `&[f32]` or `&mut [f32]`, a scalar `f32`; the types are {}, by value also usize and bool",
            words::list()
        ),
    });
    Err(Fault::new(name.span(), format!("a kernel does not take `{name}`")).help(help))
}
