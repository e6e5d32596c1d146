//! Tables: columns as wide as their widest text, and never wider than the terminal.
//!
//! The first rows decide the widths, so that a long list can be printed while it is read. Where texts of a later page are longer
//! and there is room, columns grow; their titles are printed again if they are far above by then.
//! When the terminal is too narrow, spare columns go first, then texts are cut with `…`, and columns that people copy
//! from (ids) are cut last. Without a terminal only endless texts are cut.

use console::measure_text_width;

use super::paint::Paint;
use super::text::{Text, clean};

const GAP: usize = 2;
/// No column is cut below this, or below its title.
const FLOOR: usize = 4;
/// Without a terminal, too: one endless text must not make every line endless. `--json` has all of it.
const WIDTH_MAX: usize = 300;
/// Rows below their titles that are still read by them.
const TITLES_SEEN_FOR: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A column: its title and how it behaves when room is short.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    align: Align,
    whole: bool,
    spare: bool,
}

impl Column {
    pub const fn left(title: &'static str) -> Self {
        Self { title, align: Align::Left, whole: false, spare: false }
    }

    /// For numbers.
    pub const fn right(title: &'static str) -> Self {
        Self { title, align: Align::Right, whole: false, spare: false }
    }

    /// Cut only when nothing else helps: half an id is no id.
    pub const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Left out when the terminal is too narrow.
    pub const fn spare(mut self) -> Self {
        self.spare = true;
        self
    }
}

/// One text in a table, clean and on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: clean(text.as_ref()), paint: Paint::Plain }
    }

    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Self {
        Self { paint, ..Self::new(text) }
    }

    /// A status, in its colour.
    pub fn status(text: &Text) -> Self {
        Self::painted(text.as_str(), Paint::of_status(text.as_str()))
    }
}

impl From<&Text> for Cell {
    fn from(text: &Text) -> Self {
        Self::new(text.as_str())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// A table that is printed page by page.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    /// The width of each column; `None` for a column that is left out. Empty until the first page.
    widths: Vec<Option<usize>>,
    /// Rows since the titles were printed.
    since_titles: usize,
}

impl Table {
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), widths: Vec::new(), since_titles: 0 }
    }

    /// The rows as lines; before the first ones, the header. `room` is the width of the terminal, if there is one.
    pub fn render(&mut self, rows: &[Vec<Cell>], room: Option<usize>, color: bool) -> String {
        let mut out = String::new();
        let begins = self.widths.is_empty();
        let widths = if begins { self.measure(rows, room) } else { self.grown(rows, room) };
        let grows = widths != self.widths;
        self.widths = widths;
        if begins || (grows && self.since_titles >= TITLES_SEEN_FOR) {
            self.since_titles = 0;
            let header: Vec<Cell> = self.columns.iter().map(|c| Cell::painted(c.title, Paint::Strong)).collect();
            self.line(&header, room, color, &mut out);
        }
        self.since_titles += rows.len();
        for row in rows {
            self.line(row, room, color, &mut out);
        }
        out
    }

    fn measure(&self, rows: &[Vec<Cell>], room: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = (0..self.columns.len())
            .map(|at| {
                let title = measure_text_width(self.columns[at].title);
                let widest = rows.iter().filter_map(|row| row.get(at)).map(|c| measure_text_width(&c.text)).max();
                let widest = if self.columns[at].whole { widest } else { widest.min(Some(WIDTH_MAX)) };
                widest.max(Some(title))
            })
            .collect();
        let Some(room) = room else { return widths };
        for at in (0..widths.len()).rev() {
            if total(&widths) > room && self.columns[at].spare {
                widths[at] = None;
            }
        }
        for whole in [false, true] {
            while total(&widths) > room {
                // The widest gives first; of equals the last one, because the first columns say what the row is.
                let widest = (0..widths.len())
                    .filter(|&at| self.columns[at].whole == whole)
                    .filter_map(|at| widths[at].map(|width| (width, at)))
                    .filter(|&(width, at)| width > FLOOR.max(measure_text_width(self.columns[at].title)))
                    .max();
                match widest {
                    Some((width, at)) => widths[at] = Some(width - 1),
                    None => break,
                }
            }
        }
        for at in (1..widths.len()).rev() {
            if total(&widths) > room {
                widths[at] = None;
            }
        }
        widths
    }

    /// The widths for later rows: wider where they need it and there is room, never narrower.
    fn grown(&self, rows: &[Vec<Cell>], room: Option<usize>) -> Vec<Option<usize>> {
        let mut widths = self.widths.clone();
        for (at, needed) in self.measure(rows, None).into_iter().enumerate() {
            let (Some(width), Some(needed)) = (widths[at], needed) else { continue };
            let left = room.map_or(usize::MAX, |room| room.saturating_sub(total(&widths)));
            widths[at] = Some(width.max(needed.min(width.saturating_add(left))));
        }
        widths
    }

    fn line(&self, row: &[Cell], room: Option<usize>, color: bool, out: &mut String) {
        let mut pad = 0;
        let mut first = true;
        for ((cell, column), width) in row.iter().zip(&self.columns).zip(&self.widths) {
            let Some(width) = *width else { continue };
            if !first {
                pad += GAP;
            }
            first = false;
            let text = match room {
                Some(_) => fit(&cell.text, width),
                None if column.whole => cell.text.clone(),
                None => fit(&cell.text, WIDTH_MAX.max(width)),
            };
            let missing = width.saturating_sub(measure_text_width(&text));
            if column.align == Align::Right {
                pad += missing;
            }
            if text.is_empty() {
                pad += if column.align == Align::Left { missing } else { 0 };
                continue;
            }
            // Padding is written only before a text, so that no line ends in spaces.
            out.extend(std::iter::repeat_n(' ', pad));
            out.push_str(&cell.paint.on(&text, color));
            pad = if column.align == Align::Left { missing } else { 0 };
        }
        out.push('\n');
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// Makes the character before it an emoji, which is a column wider.
const EMOJI_SELECTOR: char = '\u{fe0f}';

/// The text within `width` columns, cut with `…` where it is longer.
pub fn fit(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    let mut buffer = [0; 4];
    for c in text.chars() {
        used += if c == EMOJI_SELECTOR { 1 } else { measure_text_width(c.encode_utf8(&mut buffer)) };
        if used + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::left("ID").whole(), Column::left("TYPE"), Column::right("TRIES"), Column::left("NOTE").spare()];

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["0198aaaa".into(), "stripe.webhook.process".into(), "1".into(), "fine".into()],
            vec!["0198bbbb".into(), "東京".into(), "12".into(), "".into()],
        ]
    }

    #[test]
    fn columns_are_aligned_by_what_the_eye_sees() {
        let text = Table::new(&COLUMNS).render(&rows(), None, false);
        assert_eq!(
            text,
            "ID        TYPE                    TRIES  NOTE\n\
             0198aaaa  stripe.webhook.process      1  fine\n\
             0198bbbb  東京                       12\n"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_spare_columns_then_text_then_ids() {
        let render = |room| Table::new(&COLUMNS).render(&rows(), Some(room), false);
        assert_eq!(
            render(40),
            "ID        TYPE                    TRIES\n\
             0198aaaa  stripe.webhook.process      1\n\
             0198bbbb  東京                       12\n"
        );
        assert_eq!(
            render(25),
            "ID        TYPE      TRIES\n\
             0198aaaa  stripe.…      1\n\
             0198bbbb  東京         12\n"
        );
        assert_eq!(
            render(17),
            "ID    TYPE  TRIES\n\
             019…  str…      1\n\
             019…  東京     12\n"
        );
    }

    #[test]
    fn later_pages_keep_the_widths_of_the_first_unless_they_need_more() {
        for room in [None, Some(80)] {
            let mut table = Table::new(&[Column::left("A"), Column::left("B")]);
            let mut page = |a: &str, b: &str| table.render(&[vec![a.into(), b.into()]], room, false);
            assert_eq!(page("xx", "1"), "A   B\nxx  1\n");
            assert_eq!(page("y", "2"), "y   2\n");
            assert_eq!(page("zzzz", "3"), "zzzz  3\n");
            assert_eq!(page("y", "4"), "y     4\n");
            for _ in 0..TITLES_SEEN_FOR {
                page("y", "5");
            }
            assert_eq!(page("zzzzzz", "6"), "A       B\nzzzzzz  6\n", "the titles are out of sight");
        }
        let mut table = Table::new(&[Column::left("A"), Column::left("B")]);
        table.render(&[vec!["xx".into(), "1".into()]], Some(6), false);
        assert_eq!(table.render(&[vec!["yyyy".into(), "2".into()]], Some(6), false), "yy…  2\n");
    }

    #[test]
    fn an_endless_text_is_cut_without_a_terminal_too() {
        let endless = "x".repeat(100_000);
        let rows =
            [vec!["1".into(), Cell::new(&endless), "end".into()], vec!["2".into(), "short".into(), "end".into()]];
        let columns = [Column::left("ID").whole(), Column::left("TITLE"), Column::left("LAST")];
        for room in [None, Some(80)] {
            let text = Table::new(&columns).render(&rows, room, false);
            let widths: Vec<usize> = text.lines().map(measure_text_width).collect();
            assert!(widths.iter().all(|width| *width <= room.unwrap_or(WIDTH_MAX + 10)), "{room:?}: {widths:?}");
            assert!(text.contains("x…  end\n"), "{text}");
        }
        let ids = Table::new(&columns).render(&[vec![Cell::new(&endless), "".into(), "".into()]], None, false);
        assert!(ids.contains(&endless), "what people copy is whole");
    }

    #[test]
    fn colours_do_not_shift_columns() {
        let mut table = Table::new(&[Column::left("S"), Column::left("B")]);
        let rows = [vec![Cell::status(&Text::new("dead")), "x".into()]];
        assert_eq!(
            table.render(&rows, None, true),
            "\u{1b}[1mS\u{1b}[0m     \u{1b}[1mB\u{1b}[0m\n\u{1b}[31mdead\u{1b}[0m  x\n"
        );
    }

    #[test]
    fn cells_are_clean() {
        assert_eq!(Cell::new("a\u{1b}[2Jb\nc").text, "a[2Jb c");
    }

    #[test]
    fn an_emoji_that_is_made_of_two_characters_has_two_columns() {
        assert_eq!(fit("*\u{fe0f}abc", 5), "*\u{fe0f}abc");
        assert_eq!(fit("*\u{fe0f}abc", 4), "*\u{fe0f}a…");
        assert_eq!(fit("ab*\u{fe0f}c", 4), "ab*…", "half an emoji is the plain character");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(texts in prop::collection::vec("\\PC{0,40}", 8), room in 4usize..120) {
            let rows: Vec<Vec<Cell>> = texts.chunks(4).map(|row| row.iter().map(|t| t.as_str().into()).collect()).collect();
            let text = Table::new(&COLUMNS).render(&rows, Some(room), false);
            for line in text.lines() {
                prop_assert!(measure_text_width(line) <= room.max(FLOOR), "{line:?} in {room}");
            }
        }
    }
}
