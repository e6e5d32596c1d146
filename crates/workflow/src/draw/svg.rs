//! SVG that needs nobody's help: no script, no font of its own, colours for light and for dark surroundings.

use std::fmt::Write;

use super::layout::{Layout, Path, Size, arrange};
use super::look::{self, Family, Outline};
use super::{Node, NodeStatus, Picture};

const NAME_SIZE: f64 = 13.0;
const TYPE_SIZE: f64 = 10.5;
const WIDTH_MIN: f64 = 96.0;
const NAME_UNITS_MAX: f64 = 26.0;
/// Words on edges are short; guards of blueprints are not. Whoever points at one that was cut sees it whole.
const LABEL_UNITS_MAX: f64 = 30.0;

/// A text as wide as it will be about, in units of a letter; cut if it is too wide.
fn fit(text: &str, most: f64) -> (String, f64) {
    let unit = |c: char| match c {
        'i' | 'l' | 'j' | '.' | ',' | ':' | '\'' | '|' | ' ' => 0.55,
        'm' | 'w' | 'M' | 'W' | '@' => 1.45,
        c if u32::from(c) >= 0x1100 => 1.9,
        c if c.is_uppercase() => 1.2,
        _ => 1.0,
    };
    let (mut fitted, mut width) = (String::new(), 0.0);
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if width + unit(c) > most {
            fitted.push('…');
            return (fitted, width + 1.0);
        }
        fitted.push(c);
        width += unit(c);
    }
    (fitted, width)
}

fn size(node: &Node<'_>) -> Size {
    let (_, name) = fit(node.name, NAME_UNITS_MAX);
    let (_, kind) = fit(node.node_type, NAME_UNITS_MAX);
    let text = (name * NAME_SIZE * 0.64).max(kind * TYPE_SIZE * 0.60);
    let (outline, _) = look::of(node.node_type);
    let (sides, height) = match outline {
        Outline::Hexagon => (60.0, 50.0),
        Outline::Pill => (48.0, 44.0),
        Outline::Bar => (52.0, 38.0),
        Outline::Round => (44.0, 46.0),
        Outline::Box | Outline::Stack => (36.0, 46.0),
    };
    Size { width: (text + sides).max(WIDTH_MIN), height }
}

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let sizes: Vec<Size> = picture.nodes.iter().map(size).collect();
    let layout = arrange(picture, &sizes);
    let (width, height) = (layout.width.ceil(), layout.height.ceil());
    let mut out = String::new();
    // Writing into a text cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" role=\"img\">"
    );
    style(&mut out);
    out.push_str(
        "<defs>\
         <marker id=\"tip\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path class=\"tip\" d=\"M0 0.8 L9.5 5 L0 9.2 z\"/></marker>\
         <marker id=\"tip-failure\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path class=\"tip failure\" d=\"M0 0.8 L9.5 5 L0 9.2 z\"/></marker>\
         </defs>\n",
    );
    let _ = writeln!(out, "<rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"10\"/>");
    let mut labels = String::new();
    for (index, lean) in leans(picture, &layout, &sizes).into_iter().enumerate() {
        draw_edge(&mut out, &mut labels, picture, &layout, &sizes, (index, lean));
    }
    for (index, node) in picture.nodes.iter().enumerate() {
        draw_node(&mut out, node, layout.middles[index], sizes[index], picture.handler == Some(index));
    }
    // Last, so that nothing runs over them.
    out.push_str(&labels);
    out.push_str("</svg>\n");
    out
}

fn style(out: &mut String) {
    out.push_str(
        "<style>\n\
         .ground{fill:#fbfbfc}\n\
         .node{fill:#ffffff;stroke:#c3c8d1;stroke-width:1.2}\n\
         .name{fill:#20242c;font-weight:600}\n\
         .type,.on{fill:#667080}\n\
         .edge{fill:none;stroke:#8b93a1;stroke-width:1.5}\n\
         .tip{fill:#8b93a1}\n\
         .edge.failure{stroke:#d0463b;stroke-dasharray:5 4}\n\
         .tip.failure{fill:#d0463b}\n\
         .on{stroke:#fbfbfc;stroke-width:4;paint-order:stroke;stroke-linejoin:round}\n\
         .on.failure{fill:#c23b31}\n\
         .done .node{fill:#e7f5ec;stroke:#3f9a5f;stroke-width:2}\n\
         .failed .node{fill:#fdeceb;stroke:#d0463b;stroke-width:2.4}\n\
         .waiting .node{fill:#fdf4e1;stroke:#c98a1c;stroke-width:2;stroke-dasharray:6 3}\n\
         .current .node{fill:#e6f0fc;stroke:#3d7fd0;stroke-width:3}\n",
    );
    for family in Family::ALL {
        let _ = writeln!(out, ".{} .mark{{fill:{}}}", family.name(), family.colour());
    }
    out.push_str(
        "@media (prefers-color-scheme: dark){\n\
         .ground{fill:#16181d}\n\
         .node{fill:#22262e;stroke:#4a515e}\n\
         .name{fill:#e8eaee}\n\
         .type,.on{fill:#a0a8b5}\n\
         .edge{stroke:#7a8290}\n\
         .tip{fill:#7a8290}\n\
         .on{stroke:#16181d}\n\
         .on.failure{fill:#f08a80}\n\
         .done .node{fill:#1d3326}\n\
         .failed .node{fill:#3d2220}\n\
         .waiting .node{fill:#38301c}\n\
         .current .node{fill:#1d2f45}\n\
         }\n</style>\n",
    );
}

fn draw_node(out: &mut String, node: &Node<'_>, (x, y): (f64, f64), size: Size, is_handler: bool) {
    let (outline, family) = look::of(node.node_type);
    let status = match node.status {
        Some(NodeStatus::Done) => " done",
        Some(NodeStatus::Failed) => " failed",
        Some(NodeStatus::Waiting) => " waiting",
        Some(NodeStatus::Current) => " current",
        None => "",
    };
    let (left, top, width, height) = (x - size.width / 2.0, y - size.height / 2.0, size.width, size.height);
    let (right, bottom) = (left + width, top + height);
    let _ = write!(
        out,
        "<g class=\"{}{status}\"><title>{} ({})</title>",
        family.name(),
        escape(node.name),
        escape(node.node_type)
    );
    let plain = |radius: f64| {
        format!(
            "<rect class=\"node\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\"/>"
        )
    };
    // A stripe at the left says what sort of node it is; round shapes have a dot.
    let stripe = format!(
        "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"4\" height=\"{:.1}\" rx=\"2\"/>",
        left + 7.0,
        top + 9.0,
        height - 18.0
    );
    let dot = |inset: f64| format!("<circle class=\"mark\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", left + inset);
    let shape = match outline {
        Outline::Pill => plain(height / 2.0) + &dot(15.0),
        Outline::Box => plain(6.0) + &stripe,
        Outline::Round => plain(16.0) + &dot(14.0),
        Outline::Stack => {
            let behind = format!(
                "<rect class=\"node\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\"/>",
                left + 4.0,
                top + 4.0
            );
            behind + &plain(6.0) + &stripe
        }
        Outline::Hexagon => {
            let cut = 16.0;
            let points = format!(
                "{left:.1},{y:.1} {:.1},{top:.1} {:.1},{top:.1} {right:.1},{y:.1} {:.1},{bottom:.1} {:.1},{bottom:.1}",
                left + cut,
                right - cut,
                right - cut,
                left + cut
            );
            format!("<polygon class=\"node\" points=\"{points}\"/>") + &dot(17.0)
        }
        Outline::Bar => {
            let bar = format!(
                "<rect class=\"mark\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"4\" rx=\"2\"/>",
                if node.node_type == "join" { top } else { bottom - 4.0 }
            );
            plain(4.0) + &bar
        }
    };
    out.push_str(&shape);
    let inset = match outline {
        Outline::Box | Outline::Stack => 4.0,
        Outline::Round | Outline::Pill => 7.0,
        Outline::Hexagon => 5.0,
        Outline::Bar => 0.0,
    };
    let lift = match (outline, node.node_type) {
        (Outline::Bar, "join") => 1.5,
        (Outline::Bar, _) => -2.5,
        _ => 0.0,
    };
    let (name, kind) = (fit(node.name, NAME_UNITS_MAX).0, fit(node.node_type, NAME_UNITS_MAX).0);
    let middle = x + inset;
    let _ = write!(
        out,
        "<text class=\"name\" x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"{NAME_SIZE}\" text-anchor=\"middle\">{}</text>",
        y - 2.0 + lift,
        escape(&name)
    );
    let _ = write!(
        out,
        "<text class=\"type\" x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"{TYPE_SIZE}\" text-anchor=\"middle\">{}</text>",
        y + 12.5 + lift,
        escape(&kind)
    );
    if is_handler {
        let _ = write!(
            out,
            "<text class=\"on failure\" x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{TYPE_SIZE}\" text-anchor=\"middle\">on error</text>",
            top - 6.0
        );
    }
    out.push_str("</g>\n");
}

fn draw_edge(
    out: &mut String,
    labels: &mut String,
    picture: &Picture<'_>,
    layout: &Layout,
    sizes: &[Size],
    (index, lean): (usize, Lean),
) {
    let edge = &picture.edges[index];
    let (from, to) = (layout.middles[edge.source], layout.middles[edge.target]);
    let (source, target) = (sizes[edge.source], sizes[edge.target]);
    let (path, label) = match &layout.ways[index] {
        Path::Down(bends) => {
            let begin = (from.0 + lean.begin, from.1 + source.height / 2.0);
            let end = (to.0 + lean.end, to.1 - target.height / 2.0 - 1.0);
            let points: Vec<_> = std::iter::once(begin).chain(bends.iter().copied()).chain([end]).collect();
            let mut path = format!("M{:.1} {:.1}", begin.0, begin.1);
            for pair in points.windows(2) {
                let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
                let half = (y2 - y1) / 2.0;
                let _ = write!(path, " C{x1:.1} {:.1} {x2:.1} {:.1} {x2:.1} {y2:.1}", y1 + half, y2 - half);
            }
            let second = points.get(1).copied().unwrap_or(end);
            // On the line itself; every second one lower, so that neighbours do not stand on each other.
            let t = if lean.rank % 2 == 0 { 0.28 } else { 0.52 };
            let (along, down) = (t * t * (3.0 - 2.0 * t), 1.5 * t * (1.0 - t) + t * t * t);
            let label = (begin.0 + (second.0 - begin.0) * along, begin.1 + (second.1 - begin.1) * down + 3.5);
            (path, label)
        }
        Path::Back(side) => {
            let (begin, end) =
                ((from.0 + source.width / 2.0, from.1 + 8.0), (to.0 + target.width / 2.0 + 1.0, to.1 - 8.0));
            let side = side.max(begin.0 + 20.0).max(end.0 + 20.0);
            let r = 10.0;
            let (up, down) = (end.1.min(begin.1), end.1.max(begin.1));
            let path = if down - up < 2.0 * r {
                format!(
                    "M{:.1} {:.1} C{side:.1} {:.1} {side:.1} {:.1} {:.1} {:.1}",
                    begin.0, begin.1, begin.1, end.1, end.0, end.1
                )
            } else {
                format!(
                    "M{:.1} {:.1} H{:.1} Q{side:.1} {:.1} {side:.1} {:.1} V{:.1} Q{side:.1} {:.1} {:.1} {:.1} H{:.1}",
                    begin.0,
                    begin.1,
                    side - r,
                    begin.1,
                    begin.1 - r,
                    end.1 + r,
                    end.1,
                    side - r,
                    end.1,
                    end.0
                )
            };
            let text = edge.on.map_or(0.0, |on| fit(on, LABEL_UNITS_MAX).1 * TYPE_SIZE * 0.3);
            (path, (begin.0 + 8.0 + text, begin.1 - 4.0))
        }
    };
    let (class, tip) = if edge.is_for_failures { ("edge failure", "tip-failure") } else { ("edge", "tip") };
    let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{tip})\"/>");
    if let Some(on) = edge.on {
        let class = if edge.is_for_failures { "on failure" } else { "on" };
        let (fitted, _) = fit(on, LABEL_UNITS_MAX);
        let whole = if fitted.ends_with('…') { format!("<title>{}</title>", escape(on)) } else { String::new() };
        let _ = writeln!(
            labels,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"{TYPE_SIZE}\" text-anchor=\"middle\">{}{whole}</text>",
            label.0,
            label.1,
            escape(&fitted)
        );
    }
}

/// Where an edge begins and ends, from the middles of its nodes, and which one it is of those that leave its source.
#[derive(Debug, Clone, Copy, Default)]
struct Lean {
    begin: f64,
    end: f64,
    rank: usize,
}

/// How far from the middles of its nodes each edge begins and ends, so that several do not lie on each other: in the order
/// in which they come from the other side.
fn leans(picture: &Picture<'_>, layout: &Layout, sizes: &[Size]) -> Vec<Lean> {
    let mut leans = vec![Lean::default(); picture.edges.len()];
    let mut leaving: Vec<Vec<(f64, usize)>> = vec![Vec::new(); picture.nodes.len()];
    let mut arriving = leaving.clone();
    for (index, edge) in picture.edges.iter().enumerate() {
        if let Path::Down(bends) = &layout.ways[index] {
            let (first, last) = (bends.first(), bends.last());
            leaving[edge.source].push((first.map_or(layout.middles[edge.target].0, |bend| bend.0), index));
            arriving[edge.target].push((last.map_or(layout.middles[edge.source].0, |bend| bend.0), index));
        }
    }
    for (at_begin, all) in [(true, &mut leaving), (false, &mut arriving)] {
        for (node, edges) in all.iter_mut().enumerate() {
            edges.sort_by(|a, b| a.0.total_cmp(&b.0));
            let count = edges.len() as f64;
            let step = (sizes[node].width * 0.62 / count).min(26.0);
            for (rank, (_, edge)) in edges.iter().enumerate() {
                let lean = (rank as f64 - (count - 1.0) / 2.0) * step;
                if at_begin {
                    (leans[*edge].begin, leans[*edge].rank) = (lean, rank);
                } else {
                    leans[*edge].end = lean;
                }
            }
        }
    }
    leans
}

/// Text as XML has it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}
