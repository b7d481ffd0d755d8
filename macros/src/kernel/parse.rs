//! Parses a kernel. An error in one part does not hide errors in others.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use super::ty::{ty, word};
use super::{Argument, Kernel, Launch, Reach, Source, Type, TypeParam, words};
use crate::fault::{Fault, Parsed};
use crate::nearest::nearest;
use crate::parse::cursor::{self, Cursor};
use crate::parse::{attr, header};

const EXAMPLE: &str = "as in `pub fn axpy(a: f32, x: &[f32], y: &mut [f32]);`";

pub(super) fn kernel(tokens: TokenStream, faults: &mut Vec<Fault>) -> Option<Kernel> {
    let here = Span::call_site();
    let mut cursor = Cursor::new(tokens, here, here);
    let mut kernel = match head(&mut cursor, faults) {
        Ok(kernel) => kernel,
        Err(fault) => {
            faults.push(fault);
            return None;
        }
    };
    while !cursor.is_empty() {
        if let Err(fault) = body(&mut cursor, &mut kernel) {
            faults.push(fault);
            break;
        }
    }
    if faults.is_empty() && kernel.cuda.is_none() && kernel.host.is_none() {
        let title = format!("the kernel `{}` has no body", kernel.name);
        let help = "write `unsafe cuda r#\"..\"#;` for GPUs, `host { .. }` for the host, or both, which runs everywhere";
        faults.push(Fault::new(kernel.name.span(), title).help(help));
    }
    Some(kernel)
}

/// `#[launch(threads = 256)] pub fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]);`
fn head(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> Parsed<Kernel> {
    let (attributes, launch) = attributes(cursor, faults);
    let visibility = header::visibility(cursor);
    if cursor.is_word(0, "unsafe") {
        let fault = Fault::new(cursor.span(), "a kernel is called like a function that is safe");
        return Err(fault.help("`unsafe` stands before the body in CUDA: `unsafe cuda r#\"..\"#;`"));
    }
    cursor.word("fn", &format!("and the kernel's name, {EXAMPLE}"))?;
    let name = cursor.name(&format!("the kernel's name, {EXAMPLE}"))?;
    let mut ahead = cursor.clone();
    ahead.skip_to(|ahead| ahead.is_word(0, "where") || ahead.is_punct(0, ";"));
    let has_where = ahead.is_word(0, "where");
    let types = types(cursor, has_where, faults)?;
    let what = format!("`(` and the kernel's arguments, {EXAMPLE}");
    let mut inside = cursor.group(Delimiter::Parenthesis, &what)?;
    let arguments = arguments(&mut inside, &types, faults);
    if cursor.is_punct(0, "->") {
        let fault = Fault::new(cursor.span(), "a kernel returns nothing");
        faults.push(fault.help("let it write what it finds: take a `&mut [T]`"));
        cursor.skip_to(|cursor| cursor.is_punct(0, ";") || cursor.is_group(0, Delimiter::Brace));
    }
    if cursor.is_word(0, "where") {
        let fault = Fault::new(cursor.span(), "a kernel's bounds stand with its type parameters");
        faults.push(fault.help("write `fn scale<T: Float>(by: T, x: &mut [T]);`"));
        cursor.skip_to(|cursor| cursor.is_punct(0, ";") || cursor.is_group(0, Delimiter::Brace));
    }
    if cursor.is_group(0, Delimiter::Brace) {
        let fault = cursor.expected("`;` after the kernel's arguments");
        faults.push(fault.help("its bodies follow: `unsafe cuda r#\"..\"#;` and `host { .. }`"));
        cursor.next();
    } else {
        cursor.punct(";", "after the kernel's arguments")?;
    }
    let (cuda, host) = (None, None);
    Ok(Kernel { attributes, launch, visibility, name, types, arguments, cuda, host })
}

fn attributes(cursor: &mut Cursor, faults: &mut Vec<Fault>) -> (TokenStream, Launch) {
    let (mut others, mut launch) = (TokenStream::new(), Launch::default());
    while let Some((name, mut inside, tokens)) = attr::next(cursor) {
        if name.is_none_or(|name| name != "launch") {
            others.extend(tokens);
            continue;
        }
        let what = "`(..)`, as in `#[launch(threads = 256)]`";
        let parsed = inside
            .group(Delimiter::Parenthesis, what)
            .and_then(|mut settings| self::launch(&mut settings, &mut launch));
        faults.extend(parsed.err());
    }
    (others, launch)
}

fn launch(cursor: &mut Cursor, launch: &mut Launch) -> Parsed<()> {
    const KEYS: [&str; 3] = ["threads", "blocks", "needs"];
    while !cursor.is_empty() {
        let key = cursor.name("`threads`, `blocks` or `needs`")?;
        let name = key.to_string();
        if !KEYS.contains(&name.as_str()) {
            let near =
                nearest(&name, KEYS.into_iter()).map(|near| format!("did you mean `{near}`?"));
            let help =
                near.unwrap_or_else(|| "there are `threads`, `blocks` and `needs`".to_owned());
            let title = format!("a kernel's launch has no `{name}`");
            return Err(Fault::new(key.span(), title).help(help));
        }
        cursor.punct("=", &format!("and a value, after `{name}`"))?;
        let from = cursor.clone();
        cursor.skip_to(|cursor| cursor.is_punct(0, ","));
        let value: TokenStream = cursor.after(&from).iter().cloned().collect();
        let area = from.span();
        if value.is_empty() {
            return Err(cursor.expected(&format!("a value of `{name}`")));
        }
        match name.as_str() {
            "threads" => launch.threads = Some(threads(value, area)?),
            "blocks" => launch.blocks = Some(value),
            _ => launch.needs = Some(needs(&value, area)?),
        }
        cursor.take_punct(",");
    }
    Ok(())
}

/// Checks a literal here; the compiler checks other expressions.
fn threads(value: TokenStream, span: Span) -> Parsed<TokenStream> {
    let mut tokens = value.clone().into_iter();
    if let (Some(TokenTree::Literal(literal)), None) = (tokens.next(), tokens.next()) {
        let number = cursor::int(&literal).ok().filter(|number| (1..=1024).contains(number));
        if number.is_none() {
            return Err(Fault::new(span, "a block has 1 to 1024 threads")
                .help("256 suits most; a multiple of 32 leaves no lane of a warp idle"));
        }
    }
    Ok(value)
}

/// `sm_90`
fn needs(value: &TokenStream, span: Span) -> Parsed<u32> {
    let text = value.to_string();
    let number = text.strip_prefix("sm_").and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        Fault::new(span, format!("expected an architecture, found `{text}`"))
            .help("write `needs = sm_90` for GPUs of compute capability 9.0 and newer")
    })
}

/// `<T: Float>`
fn types(cursor: &mut Cursor, has_where: bool, faults: &mut Vec<Fault>) -> Parsed<Vec<TypeParam>> {
    let mut types = Vec::new();
    if !cursor.take_punct("<") {
        return Ok(types);
    }
    while !cursor.is_punct(0, ">") {
        if let Some(fault) = no_type(cursor) {
            faults.push(fault);
            cursor.skip_to(|cursor| cursor.is_punct(0, ",") || cursor.is_punct(0, ">"));
            cursor.take_punct(",");
            continue;
        }
        let name = cursor.name("a type parameter, as in `T: Float`")?;
        let any = || Ident::new("Element", name.span());
        let from = cursor.clone();
        let bound = match bound(cursor, &name) {
            Ok(bound) => bound,
            // Reported at the `where`.
            Err(_) if has_where && from.is_punct(0, ">") => any(),
            Err(fault) => {
                faults.push(fault);
                any()
            }
        };
        let is_cut = cursor.is_name(0);
        if is_cut {
            faults.push(cursor.expected("`+` between bounds, or `,` after them"));
        }
        // Further bounds of the Rust body, such as `+ std::ops::AddAssign`.
        let from = cursor.clone();
        let mut depth = 0;
        while !cursor.is_empty()
            && (depth > 0 || !cursor.is_punct(0, ",") && !cursor.is_punct(0, ">"))
        {
            depth += i32::from(cursor.is_punct(0, "<")) - i32::from(cursor.is_punct(0, ">"));
            cursor.next();
        }
        let more = cursor.after(&from).iter().filter(|_| !is_cut).cloned().collect();
        if words::is_taken(&name.to_string()) {
            faults.push(taken(&name));
        }
        types.push(TypeParam { name, bound, more });
        if !cursor.take_punct(",") {
            break;
        }
    }
    cursor.punct(">", "after the type parameters")?;
    Ok(types)
}

fn bound(cursor: &mut Cursor, name: &Ident) -> Parsed<Ident> {
    let (first, bound) = header::bound_path(cursor, name)?;
    if words::BOUNDS.iter().any(|known| bound == known) {
        return Ok(bound);
    }
    let fault = match bound == "Device" || bound == "World" {
        true => Fault::new(first.span(), "a kernel has no parameter for its device")
            .help(format!("leave `{name}` out: a kernel runs on the device of its stream")),
        false => {
            let title = format!("`{bound}` is not what a kernel's elements are first of all");
            Fault::new(first.span(), title)
                .help("write `Element`, `Numeric` or `Float`, and other bounds behind it: `T: Float + Copy`")
        }
    };
    Err(fault)
}

/// A lifetime, or a constant.
fn no_type(cursor: &Cursor) -> Option<Fault> {
    if cursor.is_punct(0, "'") {
        let fault = Fault::new(cursor.span(), "a kernel's arguments are written without lifetimes");
        return Some(fault.help("write `&[f32]` and `&mut [f32]`"));
    }
    cursor.is_word(0, "const").then(|| {
        let fault = Fault::new(cursor.span(), "a kernel has type parameters, and no others");
        fault.help("take the number by value, as `n: usize`")
    })
}

fn arguments(inside: &mut Cursor, types: &[TypeParam], faults: &mut Vec<Fault>) -> Vec<Argument> {
    let mut arguments: Vec<Argument> = Vec::new();
    while !inside.is_empty() {
        match argument(inside, types, faults) {
            Ok(argument) => {
                faults.extend(clash(&arguments, &argument));
                arguments.push(argument);
            }
            Err(fault) => {
                faults.push(fault);
                inside.skip_to(|inside| inside.is_punct(0, ","));
            }
        }
        if !inside.is_empty() && !inside.take_punct(",") {
            faults.push(inside.expected("`,` between arguments"));
            inside.skip_to(|inside| inside.is_punct(0, ","));
            inside.take_punct(",");
        }
    }
    if !arguments.iter().any(|argument| matches!(argument.ty, Type::DevComm)) {
        without_dev(&mut arguments, faults);
    }
    if let Some(late) = arguments.get(12) {
        let fault = Fault::new(late.name.span(), "a kernel has at most 12 arguments");
        faults.push(fault.help("put small numbers that go together into one slice"));
        arguments.truncate(12);
    }
    arguments
}

/// Windows and barriers need a device communicator among the arguments.
fn without_dev(arguments: &mut [Argument], faults: &mut Vec<Fault>) {
    let is_window = |argument: &&Argument| matches!(argument.ty, Type::Window(..));
    let is_barrier = |argument: &&Argument| matches!(argument.ty, Type::Barrier);
    if let Some(window) = arguments.iter().find(is_window) {
        let title = "a kernel that takes a window takes its device communicator too";
        let help = "add an argument `dev: &DevComm`, by which the window's peers are known; one that only computes on this rank's part takes `&[f32]`, to which a window can be given";
        faults.push(Fault::new(window.name.span(), title).help(help));
    } else if let Some(barrier) = arguments.iter().find(is_barrier) {
        let title = "a kernel that takes a barrier takes its device communicator too";
        let help = "add an argument `dev: &DevComm`, of which the barrier is";
        faults.push(Fault::new(barrier.name.span(), title).help(help));
    }
    for argument in arguments.iter_mut() {
        if let Type::Window(..) | Type::Barrier = argument.ty {
            argument.ty = Type::Unknown;
        }
    }
}

/// A name that C++ or another argument takes.
fn clash(before: &[Argument], argument: &Argument) -> Option<Fault> {
    let name = &argument.name;
    let text = name.to_string();
    if words::is_taken(&text) {
        return Some(taken(name));
    }
    for other in before {
        if other.name == *name {
            return Some(Fault::new(name.span(), format!("a second argument is called `{text}`")));
        }
        let earlier = other.name.to_string();
        let known = added(other).find(|known| *known == text);
        if let Some(known) = known.or_else(|| added(argument).find(|known| *known == earlier)) {
            let title = format!("the body in CUDA has a number called `{known}` already");
            return Some(Fault::new(name.span(), title).help("give the argument another name"));
        }
    }
    None
}

/// The names that a CUDA body has for an argument besides its own.
fn added(argument: &Argument) -> impl Iterator<Item = String> {
    let ends: &[&str] = match argument.ty {
        Type::Window(_, Reach::Part) => &["start", "len"],
        Type::Read(_) | Type::Write(_) | Type::Window(..) => &["len"],
        Type::Scalar(_) | Type::DevComm | Type::Barrier | Type::Unknown => &[],
    };
    ends.iter().map(|end| format!("{}_{end}", argument.name))
}

fn taken(name: &Ident) -> Fault {
    Fault::new(
        name.span(),
        format!("`{name}` is a word of C++ or CUDA, and the kernel is written in it"),
    )
    .help("give it another name")
}

/// `y: &mut [f32]`
fn argument(inside: &mut Cursor, types: &[TypeParam], faults: &mut Vec<Fault>) -> Parsed<Argument> {
    let name = inside.name(&format!("an argument, {EXAMPLE}"))?;
    if name == "mut" || name == "self" {
        let title = format!("an argument of a kernel begins with its name, not with `{name}`");
        return Err(Fault::new(name.span(), title));
    }
    inside.punct(":", &format!("and the type of `{name}`"))?;
    let ty = ty(inside, types).unwrap_or_else(|fault| {
        faults.push(fault);
        inside.skip_to(|inside| inside.is_punct(0, ","));
        Type::Unknown
    });
    Ok(Argument { name, ty })
}

/// One of the bodies.
fn body(cursor: &mut Cursor, kernel: &mut Kernel) -> Parsed<()> {
    const WHAT: &str = "`unsafe cuda`, `unsafe ptx` or `host` and a body";
    let start = cursor.span();
    if cursor.take_word("host") {
        let Some(TokenTree::Group(group)) = cursor.peek(0).cloned() else {
            return Err(cursor.expected("`{` and the body in Rust"));
        };
        cursor.group(Delimiter::Brace, "`{` and the body in Rust")?;
        return match kernel.host.replace(group) {
            Some(_) => Err(Fault::new(start, "a second body for the host")),
            None => Ok(()),
        };
    }
    if cursor.is_word(0, "cuda") || cursor.is_word(0, "ptx") {
        let title = "a body in CUDA is `unsafe`: nobody checks that it stays within its slices";
        let word = cursor.peek(0).map(ToString::to_string).unwrap_or_default();
        return Err(Fault::new(start, title).help(format!("if it does, write `unsafe {word}`")));
    }
    if cursor.is_word(0, "fn") || cursor.is_word(0, "pub") || cursor.is_punct(0, "#") {
        let fault = Fault::new(start, "one `kernel!` declares one kernel");
        return Err(fault.help("write a `kernel! { .. }` for each"));
    }
    if !cursor.take_word("unsafe") {
        let help = match word(cursor).as_deref() {
            Some("cpu" | "rust") => "the body for the host is `host { .. }`",
            Some("gpu" | "device" | "cpp" | "cu") => {
                "the body for GPUs is `unsafe cuda r#\"..\"#;`"
            }
            _ => return Err(cursor.expected(WHAT)),
        };
        return Err(cursor.expected(WHAT).help(help));
    }
    let is_ptx = match cursor.name("`cuda` or `ptx`")? {
        word if word == "cuda" => false,
        word if word == "ptx" => true,
        word if word == "host" => {
            return Err(Fault::new(
                word.span(),
                "the body for the host is plain Rust, and not `unsafe`",
            )
            .help("write `host { .. }`"));
        }
        word => {
            return Err(Fault::new(
                word.span(),
                format!("expected `cuda` or `ptx`, found `{word}`"),
            ));
        }
    };
    let is_file = cursor.take_word("file");
    let line = cursor.span().start().line;
    let from = cursor.clone();
    match is_file {
        true => cursor.skip_to(|cursor| cursor.is_punct(0, ";")),
        false => string(cursor, is_ptx)?,
    }
    let text: TokenStream = cursor.after(&from).iter().cloned().collect();
    if text.is_empty() {
        return Err(cursor.expected("the name of a file, as in `file \"kernels/axpy.cu\"`"));
    }
    cursor.punct(";", "after the body")?;
    match kernel.cuda.replace(Source { is_ptx, is_file, word: start, text, line }) {
        Some(_) => Err(Fault::new(start, "a second body for GPUs")),
        None => Ok(()),
    }
}

/// The string that comes next.
fn string(cursor: &mut Cursor, is_ptx: bool) -> Parsed<()> {
    let language = if is_ptx { "PTX" } else { "CUDA C++" };
    let is_string = matches!(cursor.peek(0), Some(TokenTree::Literal(literal))
        if literal.to_string().starts_with(['"', 'r']));
    if !is_string {
        let help = match cursor.peek(0) {
            Some(TokenTree::Group(group)) if is_brace(group) => {
                "C++ is no Rust: write the body as a string, `r#\"..\"#`"
            }
            _ => "write `r#\"..\"#`, or `file \"name\"` for one in a file of its own",
        };
        return Err(cursor.expected(&format!("the body in {language}, as a string")).help(help));
    }
    cursor.next();
    Ok(())
}

fn is_brace(group: &Group) -> bool {
    group.delimiter() == Delimiter::Brace
}
