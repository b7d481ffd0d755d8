//! Plans as files: what is written reads back as the same plan, and whatever else is read is refused with
//! its place.

mod generated;
mod plans;
mod sample;

use generated::Random;
use proptest::prelude::*;
use typed_nccl_plan::ir::*;
use typed_nccl_plan::json::JsonError;

const HALO: &str = include_str!("../src/json/halo.json");

#[track_caller]
fn read(text: &str) -> Plan {
    Plan::from_json(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The halo plan with a part of its text replaced.
#[track_caller]
fn halo(from: &str, to: &str) -> Result<Plan, JsonError> {
    assert!(HALO.contains(from), "{from}");
    Plan::from_json(HALO.replacen(from, to, 1))
}

#[track_caller]
fn refused(from: &str, to: &str) -> String {
    match halo(from, to) {
        Ok(plan) => panic!("this is a plan: {plan:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sample_reads_back() {
    let plan = sample::plan();
    let text = plan.to_json();
    assert_eq!(read(&text), plan);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

#[test]
fn built_ones_read_back() {
    let good = plans::good().into_iter();
    let near_misses = plans::near_misses().into_iter().map(|(name, miss)| (name, miss.plan));
    for (name, plan) in good.chain(near_misses) {
        let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{name}: {refused}"));
        assert_eq!(read(&plan.to_json()), plan, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn plans_read_back(seed: u64, size in 0_usize..6) {
        let plan = Random(seed).plan(size);
        prop_assert_eq!(plan.validate(), []);
        let text = plan.to_json();
        let back = Plan::from_json(&text);
        prop_assert_eq!(back.as_ref(), Ok(&plan), "{}", text);
    }
}

#[test]
fn one_has_no_files() {
    // Places are then those of the JSON, and are written as such.
    let plan = read(HALO);
    assert_eq!(plan.steps[0].at, Location::new(14, 5));
    assert_eq!(plan.signals[1].at, Location::new(11, 21));
    assert_eq!(read(&plan.to_json()), plan);
    // With files, what has no place has none.
    let plan = halo("\"axes\"", "\"files\": [], \"axes\"").expect("a plan");
    assert_eq!(plan.steps[0].at, Location::default());
    assert!(!plan.to_json().contains("\"at\""));
}

#[test]
fn people_write_differently() {
    let same = |from, to| assert_eq!(halo(from, to), halo(from, from), "{to}");
    same("\"u[h .. 2 * h]\"", "\"u[h..2*h]\"   ");
    same("\"u[h .. 2 * h]\"", "\" `u` [ (h) .. ((2 * (h))) ] \"");
    same("\"(r - 1) % n\"", "\"(r.n - 1) % n\"");
    same("\"(r - 1) % n\"", "\"(r + -1) % size\"");
    same("\"(r - 1) % n\"", "\"(r-1)%axis.n\"");
    same("{\"signal\": \"hi\", ", "{\"signal\": \"hi\", \"times\": \"1\", ");
    same("\"hi\",\n", "\"hi\", \"after\": null,\n");
    same("\"m >= 4 * h\"", "\"m >= 4*h\"");
    same("\"m >= 4 * h\"", "\"\\u006d >= 4 * h\"");
    let Ok(plan) = halo("m >= 4 * h", "-m < -(4 % h) || all() && any(true, !(h == m), false)")
    else {
        panic!("no plan")
    };
    let shown = plan.show(&plan.promises[0].condition);
    assert_eq!(shown, "0 - m < 0 - 4 % h || (true && (true || !(h == m) || false))");
    // Distances have several parts, and stay apart from what binds tighter.
    let peer = |text: &str| {
        let plan = halo("\"(r - 1) % n\"", &format!("{text:?}")).expect("a plan");
        let StepKind::Put(put) = &plan.steps[0].kind else { panic!("a put") };
        plan.show(&put.peer)
    };
    assert_eq!(peer("(r + n - m - 1) % n"), "(r + n - m - 1) % n");
    assert_eq!(peer("r - (m % 2)"), "r - (m % 2)");
    assert_eq!(peer("r"), "r");
    assert_eq!(peer("r % n"), "r % n");
}

#[test]
fn text() {
    let error = |text: &[u8]| Plan::from_json(text).expect_err("no plan");
    let size = (16 << 20) + 1;
    assert_eq!(error(&vec![b' '; size]), JsonError::TooLarge { len: size });
    assert_eq!(error(&vec![b' '; size]).to_string(), {
        "a plan was to be read from 16777217 bytes, and texts of more than 16777216 are not read: use \
         loops, or split the plan"
    });
    assert_eq!(error(b"{\n \xff}"), JsonError::NotUtf8 { line: 2, column: 2 });
    assert_eq!(error(b"{\n \xff}").to_string(), {
        "a plan was to be read from UTF-8, and the byte at line 2, column 2 is none: save the file as \
         UTF-8"
    });
    let json =
        |line, column, what: &str| JsonError::NotJson { line, column, what: what.to_owned() };
    assert_eq!(error(b""), json(1, 1, "EOF while parsing a value"));
    assert_eq!(error(b"{\"a\": 1,}"), json(1, 9, "key must be a string"));
    assert_eq!(error(b"[1 2]"), json(1, 4, "expected `,` or `]`"));
    assert_eq!(error(b"{} {}"), json(1, 4, "trailing characters"));
    assert_eq!(error(b"[\"\\ud800\"]"), json(1, 2, "this string has half of a surrogate pair"));
    assert_eq!(error(b"{\n  \"a\": nul}").to_string(), {
        "a plan was to be read from JSON, and this is none at line 2, column 11: expected ident"
    });
    let deep = "nested more than 192 deep: nest steps less deep";
    assert_eq!(error(&[b'['; 1 << 20]), json(1, 1 << 20, "EOF while parsing a list"));
    let closed = ["[".repeat(1 << 20), "]".repeat(1 << 20)].concat();
    assert_eq!(error(closed.as_bytes()), json(1, 193, deep));
    let wide = format!("[1{}]", ",1".repeat(3_000_000));
    let JsonError::NotJson { what, .. } = error(wide.as_bytes()) else { panic!("too many values") };
    assert_eq!(what, "more than 2000000 values: split the plan");
}

#[test]
fn version() {
    let message = |found: &str| {
        format!(
            "a plan was to be read from an object with `\"typed-nccl-plan\": 1`, and {found}: write that \
             key into the file, or read it with the version of this library that wrote it"
        )
    };
    let told = |text: &str| Plan::from_json(text).expect_err("no plan").to_string();
    assert_eq!(told("[]"), message("this is no object"));
    assert_eq!(told("{}"), message("this one does not have it"));
    assert_eq!(told("{\"typed-nccl-plan\": 2, \"colour\": 3}"), message("this one says 2"));
    assert_eq!(told("{\"typed-nccl-plan\": \"1\"}"), message("this one says something else"));
}

#[test]
fn shape() {
    let told = |from, to, message: &str| assert_eq!(refused(from, to), message);
    assert_eq!(halo("\"name\": \"halo\"", "\"name\": 3"), {
        let (path, expected, found) = ("name".to_owned(), "a name".to_owned(), "3".to_owned());
        Err(JsonError::Shape { path, line: 3, column: 11, expected, found })
    });
    told(
        "\"name\": \"halo\",",
        "",
        "the file (line 1, column 1): the key \"name\" expected, none found",
    );
    told(
        "\"name\": \"halo\"",
        "\"name\": \"a\", \"name\": \"b\"",
        "the file (line 3, column 24): the key \"name\" once expected, it again found",
    );
    told(
        "{\"name\": \"m\", \"values\"",
        "{\"name\": \"m\", \"value\"",
        "params[0] (line 5, column 37): a parameter with the keys name, values, count, at expected, the \
         key \"value\" found",
    );
    let values = "a whole number, a list of them, \"1 ..= 8\" or \">= 3\" expected";
    let extent =
        |found: &str| format!("axes[0].extent (line 4, column 36): {values}, {found} found");
    told("\">= 3\"", "\"=> 3\"", &extent("\"=> 3\""));
    told("\">= 3\"", "3.5", &extent("3.5"));
    told("\">= 3\"", "1e400", &extent("1e400"));
    told(
        "\">= 3\"",
        "[1, null]",
        "axes[0].extent[1] (line 4, column 40): a whole number expected, null found",
    );
    told(
        "\"len\": \"m\"",
        "\"len\": 9223372036854775808",
        "buffers[0].len (line 9, column 44): a whole number of 64 bits, or a text such as \"(r + 1) % \
         n\", expected, 9223372036854775808 found",
    );
    told(
        "{\"put\":",
        "{\"pit\":",
        "steps[0] (line 14, column 5): a step with one of the keys compute, collective, transfer, send, \
         receive, put, signal, wait, group, for, when, sequence expected, none of them found",
    );
    told(
        "\"(r - 1) % n\"",
        "7",
        "steps[0].peer (line 14, column 38): a peer such as \"(r + 1) % n\" or {\"rank\": \"0\"} \
         expected, 7 found",
    );
    told(
        "\"steps\": [",
        "\"steps\": [{\"collective\": \"all_gather\", \"root\": 0, \"among\": \"world\", \"on\": \"net\"}, ",
        "steps[0].root (line 13, column 50): a collective without a root expected, the key \"root\" found",
    );
    told(
        "\"steps\": [",
        "\"steps\": [{\"group\": [], \"at\": [1]},",
        "steps[0].at (line 13, column 33): a list of 2 or 3 whole numbers: line, column and the file's \
         place in `files` expected, a list of 1 found",
    );
    let deep =
        ["{\"group\": [".repeat(65), "{}".to_owned(), "]}".repeat(65), ",".to_owned()].concat();
    let message = refused("\"steps\": [", &format!("\"steps\": [{deep}"));
    let end = ".group (line 13, column 716): steps inside at most 63 others expected, more found";
    assert!(
        message.starts_with("steps[0].group[0].group[0]") && message.ends_with(end),
        "{message}"
    );
}

#[test]
fn formula() {
    let told = |from, to, message: &str| assert_eq!(refused(from, to), message);
    let len = |to: &str, what: &str| {
        let message = format!("buffers[0].len (line 9, column 44): {what}");
        assert_eq!(refused("\"len\": \"m\"", &format!("\"len\": {to:?}")), message);
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        halo("\"len\": \"m\"", "\"len\": \"(m + 1\""),
        Err(JsonError::Formula {
            path: text("buffers[0].len"),
            line: 9,
            column: 44,
            what: text("`)` expected"),
            before: text("(m + 1"),
            after: text(""),
        })
    );
    len("(m + 1", "`)` expected, at the ^ in `(m + 1^`");
    len("", "a number or a condition expected, at the ^ in `^`");
    len("m + ?", "a number or a condition expected, at the ^ in `m + ^?`");
    len("m 4", "the end expected, at the ^ in `m ^4`");
    len("m < 1", "a condition stands where a number is expected, at the ^ in `m < 1^`");
    len("9223372036854775808", {
        "a number of 64 bits expected, at the ^ in `^9223372036854775808`"
    });
    len("`m", "this name has no closing backtick, at the ^ in `^`m`");
    len(&format!("{}m", "(".repeat(2_000)), {
        "more than 1024 open operators and parentheses, at the ^ in \
         `((((((((((((((((((((((((((((((((((((((((^((((((((((((((((((((((((((((((((((((((((`"
    });
    len(&format!("1{}", "+1".repeat(66)), {
        "nested more than 64 deep: balance it, or split it, at the ^ in \
         `+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1^`"
    });
    let promise = |to: &str, what: &str| {
        let message = format!("promises[0] (line 6, column 16): {what}");
        assert_eq!(refused("m >= 4 * h", to), message);
    };
    promise("m", "a number stands where a condition is expected: compare it, at the ^ in `m^`");
    promise(
        "1 < m < 4",
        "one comparison alone expected: join several with `&&`, at the ^ in `1 < m ^< 4`",
    );
    promise("!m", "a number stands where a condition is expected: compare it, at the ^ in `!m^`");
    told(
        "\"(r - 1) % n\"",
        "\"(r - 1) % m\"",
        "steps[0].peer (line 14, column 38): a peer is written as `r + 1`, or `(r + 1) % n` with an axis \
         as the divisor; any other rank as {\"rank\": \"..\"}, at the ^ in `^(r - 1) % m`",
    );
    told(
        "\"(r - 1) % n\"",
        "\"r - 1 % n\"",
        "steps[0].peer (line 14, column 38): `%` binds before `+` and `-`: write `(r + 1) % n` for a \
         ring, or `r + (k % n)`, at the ^ in `^r - 1 % n`",
    );
    told(
        "\"u[h .. 2 * h]\"",
        "\"u.prev[h .. 2 * h]\"",
        "steps[0].put (line 14, column 13): `next` expected, the other copy of a buffer that has two, at \
         the ^ in `u.prev^[h .. 2 * h]`",
    );
}

#[test]
fn name() {
    let text = |text: &str| text.to_owned();
    assert_eq!(
        halo("\"on\": \"net\"", "\"on\": \"nat\""),
        Err(JsonError::Name {
            path: text("steps[0].on"),
            line: 15,
            column: 31,
            kind: "stream",
            name: text("nat"),
            declared: text("declare it, or name one of `net`, `work`"),
        })
    );
    assert_eq!(refused("\"on\": \"net\"", "\"on\": \"nat\""), {
        "steps[0].on (line 15, column 31): there is no stream `nat`: declare it, or name one of `net`, \
         `work`"
    });
    assert_eq!(refused("m >= 4 * h", "m >= 4 * k"), {
        "promises[0] (line 6, column 16): there is no number `k`: a number may name r, size, n, m, h"
    });
    assert_eq!(refused("m >= 4 * h", "m >= r.k"), {
        "promises[0] (line 6, column 16): there is no axis `k`: declare it, or name one of `n`"
    });
    assert_eq!(
        refused(
            "\"steps\": [",
            "\"steps\": [{\"for\": \"i\", \"from\": 0, \"to\": 1, \"do\": []},"
        ),
        {
            "steps[0].for (line 13, column 21): there is no counter `i`: declare one, as this plan declares \
         no counter"
        }
    );
}

#[test]
fn not_a_plan() {
    let Err(JsonError::NotAPlan(rejected)) = halo(">= 3", ">= 0") else { panic!("a plan") };
    assert_eq!(rejected.plan, "halo");
    assert_eq!(rejected.problems[0].at, Location::new(4, 12));
    assert_eq!(refused(">= 3", ">= 0"), {
        "this was read, and is no plan:\n\
         error: axis `n` may have 0 ranks\n  --> 4:12\n   = help: let its extent begin at 1"
    });
    // Two of one name are told as such.
    assert!(refused("\"hi\"]", "\"lo\", \"hi\"]").contains("two signals are called `lo`"));
}

/// Reads it, and what is read once more from what is written of it.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Plan::from_json(bytes) {
        Err(error) => prop_assert!(error.to_string().len() < 100_000),
        Ok(plan) => {
            let text = plan.to_json();
            prop_assert_eq!(Plan::from_json(&text), Ok(plan), "{}", text);
        }
    }
    Ok(())
}

/// Changes a text in places: other bytes, parts left out, doubled, or put elsewhere.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random, changes: usize) {
    const PARTS: [&str; 24] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "null",
        "-1",
        "1e9",
        "9223372036854775807",
        "\\u0000",
        "(",
        ")",
        " % ",
        "..",
        "r",
        "0",
        "\"group\": [",
        "\"at\": [1, 2]",
        "`",
        "\u{1f980}",
        "!",
        " && ",
    ];
    for _ in 0..changes {
        let len = bytes.len();
        let (from, to) = (random.below(len + 1), random.below(len + 1));
        let end = len.min(from + random.below(64));
        match random.below(6) {
            0 if from < len => bytes[from] = random.below(256) as u8,
            1 => drop(bytes.drain(from..end)),
            2 => {
                let part = bytes[from..end].to_vec();
                bytes.splice(to..to, part);
            }
            3 if len > 1 && random.below(20) == 0 => bytes.truncate(from),
            _ => {
                let part = PARTS[random.below(PARTS.len())];
                bytes.splice(from..from, part.bytes());
            }
        }
    }
}

/// A number, a condition or the like, out of parts that mean something.
fn sentence(random: &mut Random, parts: usize) -> String {
    const PARTS: [&str; 40] = [
        "r",
        "n",
        "m",
        "h",
        "u",
        "size",
        "true",
        "false",
        "all(",
        "any(",
        "axis.",
        "param.",
        "counter.",
        ".",
        "next",
        "0",
        "1",
        "9223372036854775807",
        "(",
        ")",
        "(",
        ")",
        "[",
        "]",
        "..",
        "+",
        "-",
        "*",
        "/",
        "%",
        "<",
        "<=",
        "==",
        "!=",
        "&&",
        "||",
        "!",
        ",",
        "`",
        " ",
    ];
    (0..random.below(parts)).map(|_| PARTS[random.below(PARTS.len())]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..65_536)) {
        survives(&bytes)?;
    }

    #[test]
    fn characters(text in "[\\[\\]{}\",:0-9a-z.\\\\ -]{0,4096}") {
        survives(text.as_bytes())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn mutated(seed: u64, size in 0_usize..6, changes in 1_usize..8) {
        let mut random = Random(seed);
        let mut bytes = random.plan(size).to_json().into_bytes();
        mutate(&mut bytes, &mut random, changes);
        survives(&bytes)?;
    }

    #[test]
    fn mutated_halo(seed: u64, changes in 1_usize..4) {
        let mut bytes = HALO.as_bytes().to_vec();
        mutate(&mut bytes, &mut Random(seed), changes);
        survives(&bytes)?;
    }

    #[test]
    fn sentences(seed: u64, parts in 1_usize..40) {
        let mut random = Random(seed);
        let place = ["m >= 4 * h", "(r - 1) % n", "u[h .. 2 * h]"][random.below(3)];
        let sentence = sentence(&mut random, parts);
        survives(HALO.replacen(place, &sentence, 1).as_bytes())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn large(seed: u64, changes in 0_usize..4) {
        let mut random = Random(seed);
        let mut plan = random.plan(5);
        let steps = std::mem::take(&mut plan.steps);
        let len = plan.to_json().len() + Plan { steps: steps.clone(), ..plan.clone() }.to_json().len();
        let times = if steps.is_empty() { 0 } else { (1 << 20) / len };
        plan.steps = std::iter::repeat_n(steps, times).flatten().collect();
        let mut bytes = plan.to_json().into_bytes();
        mutate(&mut bytes, &mut random, changes);
        survives(&bytes)?;
    }
}

#[test]
fn truncated() {
    let text = sample::plan().to_json();
    for end in 0..text.len() - 1 {
        let error = Plan::from_json(&text[..end]).expect_err("half a plan");
        assert!(matches!(error, JsonError::NotJson { .. }), "{error}");
    }
}

#[test]
fn deepest() {
    // As deep as a plan may be, it is written and read back.
    let mut plan = sample::plan();
    let number = (1..64).fold(Expr::Rank, |sum, _| 1 - sum);
    let truth = |condition| Condition::Not(Box::new(Condition::Any(vec![condition])));
    let condition = (0..31).fold(number.clone().lt(0), |inner, _| truth(inner));
    let guard = |body| sample::step(StepKind::When(When { condition: condition.clone(), body }), 9);
    let inner = sample::step(sample::compute(), 9);
    plan.steps = vec![(0..63).fold(inner, |inner, _| guard(vec![inner]))];
    assert_eq!(plan.validate(), []);
    assert_eq!(read(&plan.to_json()), plan);
    // Deeper ones are written without what is deeper, and refused.
    plan.steps = vec![guard(plan.steps)];
    assert!(read(&plan.to_json()).validate().is_empty());
}

#[test]
fn counters_of_one_name() {
    let text = |text: &str| {
        let counters = "\"counters\": [\"i\", \"i\", \"i\"],\n  \"steps\": [";
        read(&HALO.replace("\"steps\": [", &format!("{counters}{text},")))
    };
    let counted = |plan: &Plan| -> Vec<u32> {
        let loops = plan.steps.iter().filter_map(|step| match &step.kind {
            StepKind::Loop(this) => Some(this.counter.0),
            _ => None,
        });
        loops.collect()
    };
    let some = |nth: &str| format!("{{\"for\": \"i\"{nth}, \"from\": 0, \"to\": 2, \"do\": []}}");
    let (one, second) = (some(""), some(", \"nth\": 2"));
    let plan = text(&[&*one, &one, &one, &one].join(","));
    assert_eq!(counted(&plan), [0, 1, 2, 2]);
    assert!(!plan.to_json().contains("nth"));
    let plan = text(&[&*second, &one, &second].join(","));
    assert_eq!(counted(&plan), [1, 2, 1]);
    assert_eq!(read(&plan.to_json()), plan);
    // In a number the loop around counts.
    let body = "\"do\": [{\"compute\": \"w\", \"arguments\": [\"i\"], \"on\": \"net\"}]";
    let plan = text(&[&*one, &one.replace("\"do\": []", body)].join(","));
    let StepKind::Loop(second) = &plan.steps[1].kind else { panic!("a loop") };
    let StepKind::Compute(inside) = &second.body[0].kind else { panic!("a compute step") };
    assert_eq!(inside.arguments, [Expr::Loop(LoopId(1))]);
    assert_eq!(plan.show(&inside.arguments[0]), "i");
    let message = refused(
        "\"steps\": [",
        &format!("\"counters\": [\"i\"], \"steps\": [{}, ", some(", \"nth\": 2")),
    );
    assert_eq!(message, {
        "steps[0].nth (line 13, column 52): which of the counters of that name, from 1, expected, 2 found"
    });
}
