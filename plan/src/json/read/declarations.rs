//! What a file declares: the plan without its statements.

use super::super::JsonError;
use super::super::names::Declared;
use super::super::node::{Fields, Node};
use super::super::tree::Kind;
use super::Reader;
use crate::ir::{
    Array, Axis, AxisId, Buffer, Communicator, Coverage, ElementType, Expr, Launch, Named, Order,
    Param, Plan, Promise, Role, Values, Version,
};

const KEYS: [&str; 18] = [
    "typed-nccl-plan",
    "name",
    "files",
    "axes",
    "params",
    "promises",
    "communicators",
    "buffers",
    "signals",
    "streams",
    "counters",
    "launch",
    "replayed",
    "target",
    "order",
    "steps",
    "covers",
    "computes",
];

/// Reads a plan.
pub(super) fn plan<'a>(node: &'a Node<'a>) -> Result<Plan, JsonError> {
    let fields = node.object("a plan", &KEYS)?;
    // Names first: numbers everywhere mention them.
    let plan = named(&fields)?;
    let declared = Declared::new(&plan);
    let mut reader = Reader::new(&declared);
    let params = params(&mut reader, &plan, &fields)?;
    let promises = each(&fields, "promises", "conditions", |promise| {
        let (text, at) = promise.with_place("a promise", "holds")?;
        Ok(Promise { condition: reader.condition(&text)?, at })
    })?;
    let communicators = each(&fields, "communicators", "communicators", |one| {
        let fields = one.object("a communicator", &["name", "axes", "at"])?;
        let axes = fields.need("axes")?;
        let axes = axes.list("axes")?.map(|axis| Ok(AxisId(reader.id(&axis, &declared.axes)?)));
        let axes = axes.collect::<Result<_, JsonError>>()?;
        Ok(Communicator { name: name(&fields)?, axes, at: fields.at()? })
    })?;
    let buffers = each(&fields, "buffers", "buffers", |one| buffer(&mut reader, &one))?;
    let steps = reader.steps(&fields.need("steps")?, 1)?;
    let covers = each(&fields, "covers", "regions", |cover| {
        let (region, at) = cover.with_place("a region", "region")?;
        Ok(Coverage { region: reader.region(&region)?, at })
    })?;
    let computes = each(&fields, "computes", "collectives", |one| reader.postcondition(&one))?;
    let (launch, order, target) =
        (fields.maybe("launch"), fields.maybe("order"), fields.maybe("target"));
    let launches = [("eager", Launch::Eager), ("captured", Launch::Captured)];
    let orders = [("declared", Order::Declared), ("implicit", Order::Implicit)];
    Ok(Plan {
        launch: launch.map_or_else(|| Ok(Launch::default()), |node| one_of(&node, &launches))?,
        order: order.map_or_else(|| Ok(Order::default()), |node| one_of(&node, &orders))?,
        target: target.map_or_else(|| Ok(Version::default()), |node| version(&node))?,
        replayed: fields.maybe("replayed").map_or(Ok(true), |node| node.boolean())?,
        params,
        promises,
        communicators,
        buffers,
        steps,
        covers,
        computes,
        ..plan.clone()
    })
}

/// The plan's names, without numbers: what these resolve by.
fn named<'a>(fields: &Fields<'a>) -> Result<Plan, JsonError> {
    let plain = |key, of| {
        each(fields, key, of, |one| {
            let (text, at) = one.with_place("a name", "name")?;
            Ok(Named { name: text.text("a name")?.to_owned(), at })
        })
    };
    for key in ["name", "axes", "communicators", "steps"] {
        fields.need(key)?;
    }
    Ok(Plan {
        name: name(fields)?,
        files: each(fields, "files", "paths", |file| Ok(file.text("a path")?.to_owned()))?,
        axes: each(fields, "axes", "axes", |axis| {
            let fields = axis.object("an axis", &["name", "extent", "at"])?;
            let extent = values(&fields.need("extent")?)?;
            Ok(Axis { name: name(&fields)?, extent, at: fields.at()? })
        })?,
        params: each(fields, "params", "parameters", |param| {
            let fields = param.object("a parameter", &["name", "values", "count", "at"])?;
            let values = values(&fields.need("values")?)?;
            Ok(Param { name: name(&fields)?, values, count: None, at: fields.at()? })
        })?,
        promises: Vec::new(),
        communicators: each(fields, "communicators", "communicators", |one| {
            let fields = one.object("a communicator", &["name", "axes", "at"])?;
            Ok(Communicator { name: name(&fields)?, axes: Vec::new(), at: fields.at()? })
        })?,
        buffers: each(fields, "buffers", "buffers", |one| {
            let fields = buffer_fields(&one)?;
            Ok(Buffer {
                name: name(&fields)?,
                element: ElementType::U8,
                len: Expr::Int(0),
                array: None,
                role: Role::Local,
                window: false,
                copies: 1,
                at: fields.at()?,
            })
        })?,
        signals: plain("signals", "names")?,
        streams: plain("streams", "names")?,
        counters: plain("counters", "names")?,
        steps: Vec::new(),
        launch: Launch::default(),
        replayed: true,
        target: Version::default(),
        order: Order::default(),
        covers: Vec::new(),
        computes: Vec::new(),
    })
}

fn params(
    reader: &mut Reader<'_>,
    plan: &Plan,
    fields: &Fields<'_>,
) -> Result<Vec<Param>, JsonError> {
    let mut params = plan.params.iter();
    each(fields, "params", "parameters", |node| {
        let fields = Fields { node: &node };
        let count = fields.maybe("count").map(|count| reader.number(&count)).transpose()?;
        let param = params.next().ok_or_else(|| node.expected("a parameter"))?;
        Ok(Param { count, ..param.clone() })
    })
}

fn buffer_fields<'a>(node: &'a Node<'a>) -> Result<Fields<'a>, JsonError> {
    let keys = ["name", "element", "len", "array", "role", "window", "copies", "at"];
    node.object("a buffer", &keys)
}

fn buffer(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<Buffer, JsonError> {
    let fields = buffer_fields(node)?;
    let array = match fields.maybe("array") {
        None => None,
        Some(array) => {
            let fields = array.object("an array", &["count", "index", "nth"])?;
            let count = reader.number(&fields.need("count")?)?;
            let index = reader.counter(&fields.need("index")?, &fields)?;
            Some(Array { count, index })
        }
    };
    reader.scope.extend(array.as_ref().map(|array| array.index));
    let len = reader.number(&fields.need("len")?)?;
    reader.scope.clear();
    let roles =
        [("in", Role::In), ("out", Role::Out), ("in_out", Role::InOut), ("local", Role::Local)];
    Ok(Buffer {
        name: name(&fields)?,
        element: element(&fields.need("element")?)?,
        len,
        array,
        role: one_of(&fields.need("role")?, &roles)?,
        window: fields.flag("window")?,
        copies: fields.maybe("copies").map_or(Ok(1), |copies| copies.whole("1 or 2"))?,
        at: fields.at()?,
    })
}

fn element(node: &Node<'_>) -> Result<ElementType, JsonError> {
    if let Kind::Object(_) = node.kind() {
        let fields = node.object("an element type", &["generic"])?;
        let name = fields.need("generic")?.text("the name of a type parameter")?;
        return Ok(ElementType::Generic(name.to_owned()));
    }
    type E = ElementType;
    let types = [
        E::I8,
        E::U8,
        E::I32,
        E::U32,
        E::I64,
        E::U64,
        E::F16,
        E::Bf16,
        E::F32,
        E::F64,
        E::F8E4M3,
        E::F8E5M2,
    ];
    let types = types.map(|one| (one.to_string(), one));
    one_of(node, &types.each_ref().map(|(name, one)| (&**name, one.clone())))
}

/// `4`, `[2, 4, 8]`, `"1 ..= 8"`, `">= 3"`.
fn values(node: &Node<'_>) -> Result<Values, JsonError> {
    let what = "a whole number, a list of them, \"1 ..= 8\" or \">= 3\"";
    match node.kind() {
        Kind::Number(_) => Ok(Values::Exactly(node.whole(what)?)),
        Kind::List(_) => {
            let list = node.list("whole numbers")?.map(|one| one.whole("a whole number"));
            Ok(Values::OneOf(list.collect::<Result<_, _>>()?))
        }
        Kind::Text(text) => {
            let number = |text: &str| text.trim().parse().map_err(|_| node.expected(what));
            if let Some(first) = text.trim_start().strip_prefix(">=") {
                return Ok(Values::AtLeast(number(first)?));
            }
            let range = text.split_once("..=").ok_or_else(|| node.expected(what))?;
            Ok(Values::Range(number(range.0)?, number(range.1)?))
        }
        _ => Err(node.expected(what)),
    }
}

/// `"2.32.3"`
fn version(node: &Node<'_>) -> Result<Version, JsonError> {
    let what = "a version of NCCL such as \"2.32.3\"";
    let text = node.text(what)?;
    let parts: Vec<_> = text.split('.').take(4).map(str::parse).collect();
    match &parts[..] {
        [Ok(major), Ok(minor), Ok(patch)] => Ok(Version(*major, *minor, *patch)),
        _ => Err(node.expected(what)),
    }
}

pub(super) fn name(fields: &Fields<'_>) -> Result<String, JsonError> {
    Ok(fields.need("name")?.text("a name")?.to_owned())
}

/// One of several words.
pub(super) fn one_of<T: Clone>(node: &Node<'_>, all: &[(&str, T)]) -> Result<T, JsonError> {
    let expected = || {
        let words: Vec<_> = all.iter().map(|(word, _)| format!("{word:?}")).collect();
        node.expected(format!("one of {}", words.join(", ")))
    };
    let Kind::Text(text) = node.kind() else { return Err(expected()) };
    let found = all.iter().find(|(word, _)| word == text);
    found.map(|(_, value)| value.clone()).ok_or_else(expected)
}

/// The entries of a list that may be missing.
fn each<'a, T>(
    fields: &Fields<'a>,
    key: &'a str,
    of: &str,
    mut read: impl FnMut(Node<'_>) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    match fields.maybe(key) {
        None => Ok(Vec::new()),
        Some(node) => node.list(of)?.map(&mut read).collect(),
    }
}
