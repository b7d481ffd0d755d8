//! A picture, read back: where its text and its lines are.

#![allow(unreachable_pub, reason = "a module of a test")]

use roxmltree::{Document, Node};

/// A rectangle: left, top, right, bottom.
#[derive(Clone, Copy, Debug)]
pub struct Area(pub f64, pub f64, pub f64, pub f64);

/// A picture's parts.
pub struct Sheet {
    pub width: f64,
    pub height: f64,
    pub texts: Vec<(String, Area)>,
    /// Straight pieces of lines that are drawn above the text, with their colours.
    pub lines: Vec<(String, Area)>,
    pub titles: Vec<String>,
}

/// Of 13 pixels, the widest monospace fonts have 8 for a letter.
const LETTER: f64 = 8.0;

impl Sheet {
    pub fn read(svg: &str) -> Self {
        let document = Document::parse(svg).expect("a picture is XML");
        let root = document.root_element();
        assert_eq!(root.tag_name().name(), "svg");
        assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
        let (width, height) = (number(root, "width"), number(root, "height"));
        let seen = root.attribute("viewBox").expect("it says what is seen");
        assert_eq!(seen, format!("0 0 {width} {height}"));
        let mut sheet =
            Self { width, height, texts: Vec::new(), lines: Vec::new(), titles: Vec::new() };
        let mut covered = false;
        for node in root.descendants().filter(Node::is_element) {
            match node.tag_name().name() {
                "text" => {
                    let text = node.text().unwrap_or_default().to_owned();
                    let (x, y) = (number(node, "x"), number(node, "y"));
                    let right = x + text.chars().count() as f64 * LETTER;
                    sheet.texts.push((text, Area(x, y - 11.0, right, y + 3.0)));
                }
                "title" => sheet.titles.push(node.text().unwrap_or_default().to_owned()),
                "path" if node.attribute("fill") == Some("none") => sheet.path(node),
                "rect" => {
                    let (w, h) = (number(node, "width"), number(node, "height"));
                    covered |= (w, h) == (width, height);
                    let (x, y) = (number(node, "x"), number(node, "y"));
                    let inside = x >= 0.0 && y >= 0.0 && x + w <= width && y + h <= height;
                    assert!(inside, "a rectangle is outside: {x} {y} {w} {h}");
                }
                "svg" | "g" | "path" | "circle" => {}
                other => panic!("`{other}` is not needed"),
            }
        }
        assert!(covered, "a picture brings its background");
        sheet
    }

    fn path(&mut self, node: Node<'_, '_>) {
        let ink = node.attribute("stroke").unwrap_or_default();
        if ink == "#d1d9e0" || node.has_attribute("stroke-opacity") {
            return; // below everything, or beside a line
        }
        let points: Vec<(f64, f64)> = node
            .attribute("d")
            .expect("a path goes somewhere")
            .split(['M', 'L'])
            .filter(|point| !point.trim().is_empty())
            .map(|point| {
                let mut numbers =
                    point.split_whitespace().map(|one| one.parse().expect("a number"));
                (numbers.next().expect("an x"), numbers.next().expect("a y"))
            })
            .collect();
        for pair in points.windows(2) {
            let [(a, b), (c, d)] = [pair[0], pair[1]];
            self.lines.push((ink.to_owned(), Area(a.min(c), b.min(d), a.max(c), b.max(d))));
        }
    }

    /// Panics unless all text can be read: inside, beside other text, and no line through it.
    pub fn is_readable(&self, name: &str) {
        for (at, (text, area)) in self.texts.iter().enumerate() {
            let Area(left, top, right, bottom) = *area;
            let inside = left >= 0.0 && top >= 0.0 && right <= self.width && bottom <= self.height;
            assert!(inside, "{name}: `{text}` is cut: {area:?} of {} {}", self.width, self.height);
            for (other, beside) in &self.texts[at + 1..] {
                assert!(!area.meets(*beside), "{name}: `{text}` and `{other}` overlap at {area:?}");
            }
            for (ink, line) in &self.lines {
                assert!(
                    !area.meets(*line),
                    "{name}: a line {ink} {line:?} is drawn through `{text}` {area:?}"
                );
            }
        }
        for (_, Area(left, top, right, bottom)) in &self.lines {
            assert!(*left >= 0.0 && *top >= 0.0 && *right <= self.width && *bottom <= self.height);
        }
    }

    pub fn says(&self, words: &str) -> bool {
        self.texts.iter().any(|(text, _)| text == words)
    }
}

impl Area {
    fn meets(self, other: Self) -> bool {
        self.0 < other.2 && other.0 < self.2 && self.1 < other.3 && other.1 < self.3
    }
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).expect("a number")
}
