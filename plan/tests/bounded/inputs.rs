//! Files that make the most work for their length.

use std::fmt::Write;

/// A plan as a file: what stands before its statements, and its statements.
struct File {
    axes: String,
    more: String,
    steps: String,
}

const BUFFER: &str = r#""buffers": [{"name": "u", "element": "f32", "len": "64", "role": "in_out", "window": true}, {"name": "v", "element": "f32", "len": "64", "role": "in_out", "window": true}], "#;

impl File {
    fn new(axes: &str, steps: impl Into<String>) -> Self {
        Self { axes: axes.to_owned(), more: BUFFER.to_owned(), steps: steps.into() }
    }

    fn with(mut self, more: &str) -> Self {
        self.more.push_str(more);
        self
    }

    fn buffers(mut self, more: &str) -> Self {
        self.more = more.to_owned();
        self
    }

    fn text(&self) -> String {
        let Self { axes, more, steps } = self;
        format!(
            r#"{{"typed-nccl-plan": 1, "name": "x", "files": ["a"], "axes": [{axes}], "communicators": [{{"name": "w", "axes": ["n"]}}], "signals": ["s", "t"], "streams": ["a", "b"], "counters": ["i", "j", "k"], {more} "steps": [{steps}]}}"#
        )
    }
}

fn axis(extent: &str) -> String {
    format!(r#"{{"name": "n", "extent": {extent}}}"#)
}

/// So many of something, as a list, as long as it fits.
fn list(most: usize, mut one: impl FnMut(usize) -> String) -> String {
    let mut text = String::new();
    for at in 0.. {
        let next = one(at);
        if text.len() + next.len() + 2 > most {
            break;
        }
        if at > 0 {
            text.push(',');
        }
        text.push_str(&next);
    }
    text
}

const TRANSFER: &str =
    r#"{"transfer": "u", "peer": "(r + 1) % n", "into": "v", "among": "w", "on": "a"}"#;
const PUT: &str = r#"{"put": "u[0 .. 1]", "peer": "(r + 1) % n", "into": "v[i % 64 .. i % 64 + 1]", "raises": "s", "among": "w", "on": "a"}"#;
const WAIT: &str = r#"{"wait": [{"signal": "s", "peer": "(r - 1) % n"}], "among": "w", "on": "a"}"#;

fn repeat(to: &str, body: &str) -> String {
    format!(r#"{{"for": "i", "from": 0, "to": {to}, "do": [{body}]}}"#)
}

/// A sum of so many terms, balanced.
fn sum(terms: usize, of: &str) -> String {
    if terms < 2 {
        return of.to_owned();
    }
    format!("({}+{})", sum(terms / 2, of), sum(terms - terms / 2, of))
}

/// All of them, each of at most so many bytes.
pub(crate) fn all(most: usize) -> Vec<(&'static str, String)> {
    let room = most - 4096;
    let counters = |count: usize| {
        list(room, |at| if at < count { format!("\"c{at}\"") } else { " ".repeat(room) })
    };
    let deep = |depth: usize, to: &str, body: &str| {
        let steps = (0..depth).rev().fold(body.to_owned(), |body, at| {
            format!(r#"{{"for": "c{at}", "from": 0, "to": {to}, "do": [{body}]}}"#)
        });
        let file = File::new(&axis("2"), steps);
        file.text().replace(r#"["i", "j", "k"]"#, &format!("[{}]", counters(depth)))
    };
    let flat =
        |extent: &str, one: &str| File::new(&axis(extent), list(room, |_| one.to_owned())).text();
    let mut all = vec![
        ("spaces", " ".repeat(most)),
        ("lines", "\n".repeat(most)),
        ("lists", "[".repeat(most)),
        ("one long text", format!("\"{}\"", "x".repeat(most - 2))),
        ("numbers", format!("[{}]", list(room, |_| "1".to_owned()))),
        ("objects", format!("[{}]", list(room, |_| "{}".to_owned()))),
        ("escapes", format!("\"{}\"", "\\u0041".repeat(room / 6))),
        ("transfers", flat("\">= 3\"", TRANSFER)),
        ("transfers, 2 ranks", flat("2", TRANSFER)),
        ("transfers, 4096 sizes", flat("\"1 ..= 4096\"", TRANSFER)),
        ("transfers, 4194304 ranks", flat("4194304", TRANSFER)),
        ("one transfer, 4194304 ranks", File::new(&axis("4194304"), TRANSFER).text()),
        ("a loop of 2^62", File::new(&axis("2"), repeat("4611686018427387904", TRANSFER)).text()),
        ("an empty loop of 2^62", File::new(&axis("2"), repeat("4611686018427387904", "")).text()),
        ("loops that do nothing", flat("4194304", r#"{"for": "i", "nth": 1, "from": "r", "to": "r", "do": []}"#)),
        ("deep loops of 2", deep(60, "2", TRANSFER)),
        ("deep loops of 0", deep(60, "0", TRANSFER)),
        ("puts in a loop", File::new(&axis("2"), repeat("1000000", &format!("{PUT}, {WAIT}"))).text()),
        ("puts at distinct places", File::new(&axis("2"), repeat("1000000", r#"{"put": "u[0 .. 1]", "peer": "(r + 1) % n", "into": "v[i .. i + 1]", "among": "w", "on": "a"}"#)).buffers(r#""buffers": [{"name": "u", "element": "f32", "len": "1000000", "role": "in_out", "window": true}, {"name": "v", "element": "f32", "len": "1000000", "role": "in_out", "window": true}], "#).text()),
        ("distances", File::new(&axis("2"), repeat("4000000", r#"{"signal": "s", "peer": "r + i", "among": "w", "on": "a"}"#)).text()),
        ("waits for 2^30", flat("2", r#"{"wait": [{"signal": "s", "peer": "(r - 1) % n", "times": 1073741824}], "among": "w", "on": "a"}"#)),
        ("a wait of many", File::new(&axis("4096"), format!(r#"{{"wait": [{}], "among": "w", "on": "a"}}"#, list(room, |_| r#"{"signal": "s", "peer": "r + 1"}"#.to_owned()))).text()),
        ("a large argument", File::new(&axis("65536"), format!(r#"{{"compute": "f", "arguments": ["{}"], "on": "a"}}"#, sum(60_000, "r"))).text()),
        ("a large condition", File::new(&axis("65536"), format!(r#"{{"when": "{} > 0", "do": [{{"compute": "f", "on": "a"}}]}}"#, sum(60_000, "r"))).text()),
        ("a large number, every size", File::new(&axis("\">= 1\""), format!(r#"{{"compute": "f", "arguments": ["5 / {}"], "on": "a"}}"#, sum(60_000, "(n+1)"))).text()),
        ("a group of loops", {
            let steps = (0..50).rev().fold(TRANSFER.to_owned(), |body, at| {
                format!(r#"{{"for": "c{at}", "from": 0, "to": 1, "do": [{body}]}}"#)
            });
            File::new(&axis("\">= 3\""), format!(r#"{{"group": [{steps}]}}"#)).text().replace(r#"["i", "j", "k"]"#, &format!("[{}]", counters(50)))
        }),
        ("a wide group", File::new(&axis("\">= 3\""), format!(r#"{{"group": [{}]}}"#, list(room, |_| r#"{"send": "u[0 .. h]", "peer": "(r + 1) % n", "among": "w", "on": "a"}"#.to_owned()))).with(r#""params": [{"name": "h", "values": ">= 1"}], "#).text()),
        ("a wide group of collectives", File::new(&axis("3"), format!(r#"{{"group": [{}]}}"#, list(room, |_| r#"{"collective": "all_to_all", "from": "u[0 .. 3]", "into": "v[0 .. 3]", "among": "w", "on": "a"}"#.to_owned()))).text()),
        ("sends and loops", File::new(&axis("\">= 3\""), list(room, |_| format!("{}, {}", r#"{"send": "u", "peer": "(r + 1) % n", "among": "w", "on": "a"}"#, r#"{"for": "i", "nth": 1, "from": 0, "to": "h", "do": []}"#))).with(r#""params": [{"name": "h", "values": ">= 1"}], "#).text()),
    ];
    // Declarations.
    let wide = |what: &str, one: &dyn Fn(usize) -> String, steps: &str| {
        let file = File::new(&axis("\"1 ..= 4096\""), steps);
        file.with(&format!("\"{what}\": [{}], ", list(room, one))).text()
    };
    all.push((
        "parameters",
        wide("params", &|at| format!(r#"{{"name": "p{at}", "values": 1}}"#), TRANSFER),
    ));
    all.push((
        "1000 parameters",
        wide(
            "params",
            &|at| {
                if at < 1000 {
                    format!(r#"{{"name": "parameter_of_a_long_name_{at}", "values": [1, 2]}}"#)
                } else {
                    " ".repeat(room)
                }
            },
            TRANSFER,
        ),
    ));
    all.push(("promises", wide("promises", &|at| format!("\"n > 0 && n * {at} >= 0\""), TRANSFER)));
    all.push((
        "promises, every size",
        wide("promises", &|at| format!("\"(h + {at}) % n + h >= 1\""), TRANSFER)
            .replace("\"1 ..= 4096\"", "\">= 1\"")
            .replace(r#""buffers""#, r#""params": [{"name": "h", "values": ">= 1"}], "buffers""#),
    ));
    all.push(("buffers", File::new(&axis("\"1 ..= 4096\""), TRANSFER).buffers(&format!(r#""buffers": [{{"name": "u", "element": "f32", "len": 64, "role": "in_out"}}, {{"name": "v", "element": "f32", "len": 64, "role": "in_out"}}, {}], "#, list(room - 200, |at| format!(r#"{{"name": "b{at}", "element": "f32", "len": 1, "role": "out"}}"#)))).text()));
    all.push(("a large array, many sizes", File::new(&axis("\"1 ..= 4096\""), TRANSFER).buffers(r#""buffers": [{"name": "u", "element": "f32", "len": 64, "role": "in_out"}, {"name": "v", "element": "f32", "len": 64, "role": "in_out"}, {"name": "b", "element": "f32", "len": 1, "role": "in", "array": {"count": 1000000, "index": "i"}}], "#).text()));
    all.push(("a large array, read as a whole", File::new(&axis("2"), repeat("1000000", r#"{"compute": "f", "reads": ["b"], "on": "a"}"#)).buffers(r#""buffers": [{"name": "b", "element": "f32", "len": 1, "role": "in", "array": {"count": 1000000, "index": "j"}}], "#).text()));
    all.push((
        "covered regions",
        File::new(&axis("2"), repeat("100000", TRANSFER))
            .with(&format!(
                "\"covers\": [{}], ",
                list(500_000, |at| if at < 65_536 { "\"v\"".to_owned() } else { " ".repeat(room) })
            ))
            .text(),
    ));
    all.push(("signals", {
        let file = File::new(&axis("2"), format!("{}, {}",
            list(room / 2, |at| format!(r#"{{"signal": "s{at}", "peer": "(r + 1) % n", "among": "w", "on": "a"}}"#)),
            list(room / 10, |at| format!(r#"{{"wait": [{{"signal": "s{at}", "peer": "(r - 1) % n"}}], "among": "w", "on": "a"}}"#))));
        file.text().replace(r#"["s", "t"]"#, &format!("[{}]", list(room / 4, |at| format!("\"s{at}\""))))
    }));
    all.push(("what it computes", File::new(&axis("64"), (0..40).map(|at| { let (a, b) = if at % 2 == 0 { ("u", "v") } else { ("v", "u") }; format!(r#"{{"collective": "all_reduce", "reduction": "sum", "from": "{a}", "into": "{b}", "among": "w", "on": "a"}}"#) }).collect::<Vec<_>>().join(",")).with(r#""computes": [{"collective": "all_reduce", "reduction": "sum", "from": "u", "into": "v"}], "#).text()));
    all.push(("claims", File::new(&axis("64"), r#"{"collective": "all_reduce", "reduction": "sum", "from": "u", "into": "v", "among": "w", "on": "a"}"#).with(&format!(r#""computes": [{}], "#, list(room, |_| r#"{"collective": "all_reduce", "reduction": "sum", "from": "u", "into": "v"}"#.to_owned()))).text()));
    // Streams.
    let streams: Vec<String> = (0..64).map(|at| format!("\"q{at}\"")).collect();
    let many = |steps: String| {
        File::new(&axis("2"), steps)
            .text()
            .replace(r#"["a", "b"]"#, &format!("[{}]", streams.join(",")))
    };
    let waits = (0..64).fold(String::new(), |mut text, at| {
        let _ = write!(text, r#"{{"wait": [{{"signal": "s", "peer": "(r - 1) % n", "times": 0}}], "among": "w", "on": "q{at}"}},{{"signal": "s", "peer": "(r + 1) % n", "among": "w", "on": "q{at}"}},{{"wait": [{{"signal": "s", "peer": "(r - 1) % n"}}], "among": "w", "on": "q{at}"}},"#);
        text
    });
    all.push((
        "64 streams, after each other",
        many(repeat(
            "1000000",
            &format!(r#"{{"compute": "f", "on": "q0", "after": [{}]}}"#, streams.join(",")),
        )),
    ));
    all.push((
        "64 streams, one window",
        many(format!(
            "{waits}{}",
            repeat("1000000", r#"{"compute": "f", "reads": ["u"], "on": "q0"}"#)
        )),
    ));
    // Proofs.
    let with_h = r#""params": [{"name": "h", "values": ">= 1"}, {"name": "m", "values": ">= 1"}], "promises": ["h % m == 0"], "#;
    all.push(("proofs that fail", File::new(&axis("\">= 3\""), list(room, |at| format!(r#"{{"compute": "f", "reads": ["b[h * h / (m + {at}) % (h + n) .. h * n]"], "on": "a"}}"#))).buffers(&format!(r#"{with_h} "buffers": [{{"name": "b", "element": "f32", "len": "h * n + 1", "role": "in_out"}}], "#)).text()));
    all.push(("arguments that fail", File::new(&axis("\">= 3\""), list(room, |at| format!(r#"{{"compute": "f", "arguments": ["1 / (h * h * n - h * m * {at} + r * m + 1)"], "on": "a"}}"#))).buffers(with_h).text()));
    all.push(("reads that nobody wrote", File::new(&axis("\">= 3\""), list(room, |at| format!(r#"{{"compute": "f", "reads": ["l[0 .. (h + {at}) / 2 % h]"], "writes": ["l[0 .. h / {}]"], "on": "a"}}"#, at + 1))).buffers(&format!(r#"{with_h} "buffers": [{{"name": "l", "element": "f32", "len": "h", "role": "local"}}], "#)).text()));
    all.push(("puts, every size, many regions", File::new(&axis("\">= 3\""), list(room, |at| format!(r#"{{"put": "b[0 .. 1]", "peer": "(r + 1) % n", "into": "b[h * {at} % m .. h * {at} % m + 1]", "raises": "s", "among": "w", "on": "a"}},{WAIT}"#))).buffers(&format!(r#"{with_h} "buffers": [{{"name": "b", "element": "f32", "len": "m", "role": "in_out", "window": true}}], "#)).text()));
    all
}
