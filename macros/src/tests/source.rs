//! Plans as text.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use typed_nccl_plan::ir::Plan;

use crate::fault::Fault;
use crate::valid::{Valid, valid};
use crate::{parse, tell};

macro_rules! sources {
    ($($file:ident)+) => {
        /// The plans of a file, the same as in the checker's test file of that name.
        pub(super) fn file(name: &str) -> &'static str {
            match name {
                $(stringify!($file) => include_str!(concat!("plans/", stringify!($file), ".plan")),)+
                _ => panic!("no file {name}"),
            }
        }
    };
}

sources! {
    all_gather all_reduce apart assigned barrier broadcast experts gradients halo halo2d hierarchical one_f1b pipeline reads ring
    schedules
}

/// The tokens of the plan `file::name`.
pub(super) fn plan(name: &str) -> TokenStream {
    let (file, name) = name.split_once("::").expect("a file and a name");
    let is_it = |plan: &TokenStream| {
        plan.clone().into_iter().take(12).any(|token| token.to_string() == name)
    };
    plans(file).into_iter().find(is_it).unwrap_or_else(|| panic!("no plan {name} in {file}"))
}

/// The tokens of each plan of a file.
pub(super) fn plans(file: &str) -> Vec<TokenStream> {
    let tokens: TokenStream = self::file(file).parse().expect("tokens");
    let (mut plans, mut one) = (Vec::new(), Vec::new());
    for token in tokens {
        let ends = is_group(&token, Delimiter::Brace);
        one.push(token);
        if ends {
            plans.push(one.drain(..).collect());
        }
    }
    plans
}

/// The bytes of a byte string literal.
pub(super) fn bytes(literal: &str) -> Vec<u8> {
    let text = literal.trim().strip_prefix("b\"").and_then(|text| text.strip_suffix('"'));
    let (mut chars, mut bytes) = (text.expect("a literal of bytes").bytes(), Vec::new());
    while let Some(byte) = chars.next() {
        bytes.push(match (byte, (byte == b'\\').then(|| chars.next()).flatten()) {
            (_, Some(b'0')) => 0,
            (_, Some(b'n')) => b'\n',
            (_, Some(b'r')) => b'\r',
            (_, Some(b't')) => b'\t',
            (_, Some(b'x')) => {
                let digits: Vec<u8> = chars.by_ref().take(2).collect();
                let digits = str::from_utf8(&digits).expect("two digits");
                u8::from_str_radix(digits, 16).expect("two digits")
            }
            (_, Some(itself)) => itself,
            (plain, None) => plain,
        });
    }
    bytes
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// The parsed plan and its errors, without the checker's.
pub(super) fn read(tokens: TokenStream) -> (Option<Valid>, Vec<Fault>) {
    let mut faults = Vec::new();
    let plan = parse::plan(tokens, &mut faults);
    let valid = plan.map(|plan| valid(&plan, &mut faults));
    (valid, faults)
}

/// The plan; panics if it has an error.
pub(super) fn ir(name: &str) -> Plan {
    let (valid, faults) = read(plan(name));
    let told: Vec<String> = faults.iter().map(shown).collect();
    assert!(told.is_empty(), "{name}:\n{}", told.join("\n"));
    valid.expect("a plan").plan
}

/// All errors, including the checker's, as they would be shown.
pub(super) fn messages(tokens: TokenStream) -> Vec<String> {
    let (valid, mut faults) = read(tokens);
    if faults.is_empty()
        && let Some(valid) = valid
        && let Err(rejected) = typed_nccl_plan::check::check(&valid.plan)
    {
        faults.extend(tell::faults(&rejected, &valid.areas));
    }
    faults.sort_by_key(|fault| fault.area.start());
    faults.iter().map(shown).collect()
}

pub(super) fn shown(fault: &Fault) -> String {
    let (first, last) = (fault.area.first.start(), fault.area.last.end());
    let message = fault.message.replace('\n', "\n       ");
    let to = if first.line == last.line {
        format!("{}", last.column + 1)
    } else {
        format!("{}:{}", last.line, last.column + 1)
    };
    format!("error: {message}\n --> {}:{}-{to}\n", first.line, first.column + 1)
}
