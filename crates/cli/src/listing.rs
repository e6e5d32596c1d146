//! Lists: read page by page, printed page by page.
//!
//! A page may be short, or empty, although more follow; a list ends when the server says so or when enough was read.
//! Nothing is kept but the page at hand. With `--json` the pages become one document: a single page is passed on as it
//! is, several are joined under the same name, with what else the last page said (its cursor).

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::{Answer, Client, Request};
use crate::failure::Failure;
use crate::output::text::json_safe;
use crate::output::{Cell, Column, Screen, Table};

/// How many rows are asked for at once.
const PAGE_MAX: u64 = 100;

/// How an item of a list becomes a row.
pub type Row<T> = fn(&Screen, &T) -> Vec<Cell>;

type Page = BTreeMap<String, Box<RawValue>>;

/// A list on its way to the screen.
pub struct Listing<'a, T> {
    screen: &'a mut Screen,
    /// The name under which the server puts the items.
    key: &'static str,
    row: Row<T>,
    table: Table,
    /// How many more are wanted; `None` is all there are.
    left: Option<u64>,
    shown: u64,
    more: bool,
    json: JsonList,
}

impl<'a, T: DeserializeOwned> Listing<'a, T> {
    pub fn new(screen: &'a mut Screen, key: &'static str, limit: Option<u64>, columns: &[Column], row: Row<T>) -> Self {
        let (table, json) = (Table::new(columns), JsonList::new(key));
        Self { screen, key, row, table, left: limit, shown: 0, more: false, json }
    }

    /// Reads one list to its end, or until enough was read.
    pub async fn read(&mut self, client: &Client, request: Request) -> Result<(), Failure> {
        let mut cursor: Option<String> = None;
        while self.left != Some(0) {
            let request = request
                .clone()
                .query_if("limit", self.left.map(|left| left.min(PAGE_MAX).to_string()))
                .query_if("cursor", cursor.clone());
            let answer = client.call(&request).await?;
            let mut page: Page = answer.read()?;
            let next = next_cursor(&page);
            let items = page.remove(self.key).ok_or_else(|| client.strange(format!("it has no `{}`", self.key)))?;
            let mut items: Vec<Box<RawValue>> = read(client, &items)?;
            if let Some(left) = &mut self.left {
                items.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= items.len() as u64;
            }
            self.shown += items.len() as u64;
            if self.screen.json() {
                self.json.add(self.screen, items, page, answer)?;
            } else {
                self.show(client, &items)?;
            }
            // A cursor that does not move leads nowhere.
            self.more = next.is_some() && next != cursor;
            if !self.more {
                break;
            }
            cursor = next;
        }
        Ok(())
    }

    fn show(&mut self, client: &Client, items: &[Box<RawValue>]) -> Result<(), Failure> {
        let mut rows = Vec::with_capacity(items.len());
        for item in items {
            rows.push((self.row)(self.screen, &read(client, item)?));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let text = self.table.render(&rows, self.screen.width(), self.screen.color());
        self.screen.text(&text)
    }

    /// Ends the list. `empty` is what to say, and what to do next, if there was nothing.
    pub fn finish(self, empty: &str) -> Result<(), Failure> {
        self.finish_with("--limit N shows more", empty)
    }

    /// The same; `more` is how to see what was not shown.
    pub fn finish_with(self, more: &str, empty: &str) -> Result<(), Failure> {
        if self.screen.json() {
            return self.json.finish(self.screen);
        }
        if self.shown == 0 {
            self.screen.line(empty)?;
        } else if self.more {
            self.screen.note(&format!("these are the first {}; {more}", self.shown));
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(client: &Client, json: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(json.get()).map_err(|error| client.strange(error.to_string()))
}

/// Where the next page begins. A server that has no more says so with `null`, or with `more`.
fn next_cursor(page: &Page) -> Option<String> {
    let more = page.get("more").is_none_or(|more| more.get() != "false");
    page.get("next_cursor").filter(|_| more).and_then(|cursor| serde_json::from_str(cursor.get()).ok()).flatten()
}

/// Pages becoming one JSON document, without being kept.
pub struct JsonList {
    key: &'static str,
    /// The first page, until it is known whether it is the only one.
    first: Option<(Answer, Vec<Box<RawValue>>)>,
    begun: bool,
    written: u64,
    /// Everything but the items, of the last page.
    rest: Page,
}

impl JsonList {
    pub fn new(key: &'static str) -> Self {
        Self { key, first: None, begun: false, written: 0, rest: Page::new() }
    }

    pub fn add(
        &mut self,
        screen: &mut Screen,
        items: Vec<Box<RawValue>>,
        rest: Page,
        answer: Answer,
    ) -> Result<(), Failure> {
        self.rest = rest;
        if !self.begun && self.first.is_none() {
            self.first = Some((answer, items));
            return Ok(());
        }
        let mut text = String::new();
        if let Some((_, first)) = self.first.take() {
            self.begun = true;
            text.push_str(&format!("{{\"{}\":[", self.key));
            self.write(&first, &mut text);
        }
        self.write(&items, &mut text);
        screen.json_piece(&text)
    }

    fn write(&mut self, items: &[Box<RawValue>], text: &mut String) {
        for item in items {
            if self.written > 0 {
                text.push(',');
            }
            text.push_str(&json_safe(item.get()));
            self.written += 1;
        }
    }

    /// Changes what the end of several pages says.
    pub fn say(&mut self, name: &str, value: u64) {
        if let Ok(value) = RawValue::from_string(value.to_string()) {
            self.rest.insert(name.to_owned(), value);
        }
    }

    pub fn finish(mut self, screen: &mut Screen) -> Result<(), Failure> {
        if let Some((answer, _)) = self.first.take() {
            return screen.json_line(answer.text());
        }
        if !self.begun {
            return screen.json_line(&format!("{{\"{}\":[]}}", self.key));
        }
        let mut end = "]".to_owned();
        for (name, value) in &self.rest {
            end.push_str(&format!(",{}:{}", serde_json::Value::from(name.as_str()), value.get()));
        }
        screen.json_line(&format!("{end}}}"))
    }
}
