//! Where everything stands: nodes in layers, each below all that leads to it, with as few crossings as a few sweeps give.
//!
//! An edge that leads back is left out of the layers and drawn at the side. An edge over several layers has a *bend* in
//! each, which takes a place among the nodes there, so that it goes between them and not through them.

use super::Picture;

/// What the layout knows of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size {
    pub width: f64,
    pub height: f64,
}

/// The result: middles of nodes, and the way of each edge.
#[derive(Debug)]
pub(super) struct Layout {
    pub middles: Vec<(f64, f64)>,
    pub ways: Vec<Path>,
    pub width: f64,
    pub height: f64,
}

/// How an edge goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Path {
    /// Downwards, through these points.
    Down(Vec<(f64, f64)>),
    /// Back up, along a line at this x.
    Back(f64),
}

const GAP_X: f64 = 34.0;
const GAP_Y: f64 = 62.0;
const BEND_WIDTH: f64 = 14.0;
const MARGIN: f64 = 24.0;
const SIDE_GAP: f64 = 22.0;
const SWEEPS: usize = 12;
/// More bends than this are not worth a good drawing; long edges then go straight.
const BENDS_MAX: usize = 20_000;

/// One place in a layer.
struct Spot {
    width: f64,
    /// Neighbours in the layer above and in the layer below.
    above: Vec<usize>,
    below: Vec<usize>,
}

pub(super) fn arrange(picture: &Picture<'_>, sizes: &[Size]) -> Layout {
    let count = picture.nodes.len();
    let back = back_edges(picture);
    let layer_of = layers(picture, &back);
    let layers_count = layer_of.iter().max().map_or(0, |last| last + 1);

    let mut spots: Vec<Spot> =
        sizes.iter().map(|size| Spot { width: size.width, above: Vec::new(), below: Vec::new() }).collect();
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); layers_count];
    for (node, layer) in layer_of.iter().enumerate() {
        layers[*layer].push(node);
    }
    let spans = picture.edges.iter().enumerate().filter(|(index, _)| !back[*index]);
    let bends: usize = spans.map(|(_, edge)| (layer_of[edge.target] - layer_of[edge.source]).saturating_sub(1)).sum();
    let mut chains: Vec<Vec<usize>> = vec![Vec::new(); picture.edges.len()];
    for (index, edge) in picture.edges.iter().enumerate().filter(|(index, _)| !back[*index]) {
        let mut last = edge.source;
        if bends <= BENDS_MAX {
            for layer in layers.iter_mut().take(layer_of[edge.target]).skip(layer_of[edge.source] + 1) {
                let bend = spots.len();
                spots.push(Spot { width: BEND_WIDTH, above: vec![last], below: Vec::new() });
                spots[last].below.push(bend);
                layer.push(bend);
                chains[index].push(bend);
                last = bend;
            }
        }
        if bends <= BENDS_MAX || layer_of[edge.target] == layer_of[edge.source] + 1 {
            spots[last].below.push(edge.target);
            spots[edge.target].above.push(last);
        }
    }
    order(&spots, &mut layers);
    let xs = place(&spots, &layers);

    let mut tops = Vec::with_capacity(layers_count);
    let mut y = MARGIN;
    for layer in &layers {
        let height = layer.iter().filter_map(|spot| sizes.get(*spot)).map(|size| size.height).fold(0.0, f64::max);
        tops.push((y, height));
        y += height + GAP_Y;
    }
    let left = spots.iter().zip(&xs).map(|(spot, x)| x - spot.width / 2.0).fold(f64::INFINITY, f64::min);
    let shift = if left.is_finite() { MARGIN - left } else { 0.0 };
    let right = spots.iter().zip(&xs).map(|(spot, x)| x + spot.width / 2.0 + shift).fold(0.0, f64::max);
    let middle = |spot: usize, layer: usize| (xs[spot] + shift, tops[layer].0 + tops[layer].1 / 2.0);
    let middles: Vec<_> = (0..count).map(|node| middle(node, layer_of[node])).collect();
    let mut side = right;
    let ways = picture.edges.iter().enumerate().map(|(index, edge)| {
        if back[index] {
            side += SIDE_GAP;
            return Path::Back(side);
        }
        let bends = chains[index].iter().enumerate();
        Path::Down(bends.map(|(step, bend)| middle(*bend, layer_of[edge.source] + 1 + step)).collect())
    });
    let ways: Vec<_> = ways.collect();
    let height = if layers.is_empty() { MARGIN * 2.0 } else { y - GAP_Y + MARGIN };
    Layout { middles, ways, width: side + MARGIN, height }
}

/// Which edges lead back to where the path came from, seen from the start.
pub(super) fn back_edges(picture: &Picture<'_>) -> Vec<bool> {
    let count = picture.nodes.len();
    let mut out = vec![Vec::new(); count];
    let mut into = vec![0_usize; count];
    for (index, edge) in picture.edges.iter().enumerate() {
        out[edge.source].push((index, edge.target));
        into[edge.target] += 1;
    }
    let mut back = vec![false; picture.edges.len()];
    // 0: not seen, 1: on the path, 2: done.
    let mut seen = vec![0_u8; count];
    let starts = (0..count).filter(|node| picture.nodes[*node].node_type == "start");
    let roots = (0..count).filter(|node| into[*node] == 0);
    for root in starts.chain(picture.handler).chain(roots).chain(0..count) {
        if seen[root] != 0 {
            continue;
        }
        seen[root] = 1;
        let mut path = vec![(root, 0)];
        while let Some((node, tried)) = path.last_mut() {
            let Some((edge, target)) = out[*node].get(*tried).copied() else {
                seen[*node] = 2;
                path.pop();
                continue;
            };
            *tried += 1;
            match seen[target] {
                0 => {
                    seen[target] = 1;
                    path.push((target, 0));
                }
                1 => back[edge] = true,
                _ => {}
            }
        }
    }
    back
}

/// The layer of each node: one below the lowest that leads to it.
pub(super) fn layers(picture: &Picture<'_>, back: &[bool]) -> Vec<usize> {
    let count = picture.nodes.len();
    let mut out = vec![Vec::new(); count];
    let mut waits_for = vec![0_usize; count];
    for (_, edge) in picture.edges.iter().enumerate().filter(|(index, _)| !back[*index]) {
        out[edge.source].push(edge.target);
        waits_for[edge.target] += 1;
    }
    let mut layer = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| waits_for[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for target in &out[node] {
            layer[*target] = layer[*target].max(layer[node] + 1);
            waits_for[*target] -= 1;
            if waits_for[*target] == 0 {
                ready.push(*target);
            }
        }
    }
    layer
}

/// Puts each layer into the order of the middles of its neighbours, downwards and upwards in turn; keeps the best order.
fn order(spots: &[Spot], layers: &mut [Vec<usize>]) {
    let mut position = vec![0.0; spots.len()];
    let note = |layer: &[usize], position: &mut [f64]| {
        for (place, spot) in layer.iter().enumerate() {
            position[*spot] = place as f64;
        }
    };
    for layer in layers.iter() {
        note(layer, &mut position);
    }
    let mut best = (crossings(spots, layers, &position), layers.to_vec());
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for step in 0..layers.len() {
            let at = if down { step } else { layers.len() - 1 - step };
            let layer = &mut layers[at];
            let mean = |spot: usize| {
                let next = if down { &spots[spot].above } else { &spots[spot].below };
                if next.is_empty() {
                    return position[spot];
                }
                next.iter().map(|other| position[*other]).sum::<f64>() / next.len() as f64
            };
            let mut keyed: Vec<(f64, usize)> = layer.iter().map(|spot| (mean(*spot), *spot)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *layer = keyed.into_iter().map(|(_, spot)| spot).collect();
            note(layer, &mut position);
        }
        let found = crossings(spots, layers, &position);
        if found < best.0 {
            best = (found, layers.to_vec());
        }
    }
    layers.clone_from_slice(&best.1);
}

/// How many pairs of edges cross. Counted roughly where there are very many.
fn crossings(spots: &[Spot], layers: &[Vec<usize>], position: &[f64]) -> usize {
    const EDGES_MAX: usize = 600;
    let mut total = 0;
    for layer in layers {
        let mut edges: Vec<(f64, f64)> = layer
            .iter()
            .flat_map(|spot| spots[*spot].below.iter().map(|below| (position[*spot], position[*below])))
            .collect();
        edges.truncate(EDGES_MAX);
        for (index, a) in edges.iter().enumerate() {
            total += edges[index + 1..].iter().filter(|b| (a.0 - b.0) * (a.1 - b.1) < 0.0).count();
        }
    }
    total
}

/// The x of every spot: as near to its neighbours as the order and the widths allow.
fn place(spots: &[Spot], layers: &[Vec<usize>]) -> Vec<f64> {
    let mut xs = vec![0.0; spots.len()];
    for layer in layers {
        let mut x = 0.0;
        for spot in layer {
            xs[*spot] = x + spots[*spot].width / 2.0;
            x += spots[*spot].width + GAP_X;
        }
        for spot in layer {
            xs[*spot] -= (x - GAP_X) / 2.0;
        }
    }
    for sweep in 0..SWEEPS {
        let mut settle = |layer: &Vec<usize>, up: bool, down: bool| {
            let wanted: Vec<f64> = layer
                .iter()
                .map(|spot| {
                    let above = spots[*spot].above.iter().filter(|_| up);
                    let below = spots[*spot].below.iter().filter(|_| down);
                    let next: Vec<f64> = above.chain(below).map(|other| xs[*other]).collect();
                    if next.is_empty() { xs[*spot] } else { next.iter().sum::<f64>() / next.len() as f64 }
                })
                .collect();
            let widths: Vec<f64> = layer.iter().map(|spot| spots[*spot].width).collect();
            for (spot, x) in layer.iter().zip(spread(&wanted, &widths)) {
                xs[*spot] = x;
            }
        };
        match sweep % 3 {
            0 => layers.iter().for_each(|layer| settle(layer, true, false)),
            1 => layers.iter().rev().for_each(|layer| settle(layer, false, true)),
            _ => layers.iter().for_each(|layer| settle(layer, true, true)),
        }
    }
    xs
}

/// Positions in this order, without overlap, and as near to the wanted ones as squares can measure: neighbours that want
/// the same place share the difference.
fn spread(wanted: &[f64], widths: &[f64]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(wanted.len());
    let mut offset = 0.0;
    for (index, width) in widths.iter().enumerate() {
        if index > 0 {
            offset += widths[index - 1] / 2.0 + GAP_X + width / 2.0;
        }
        offsets.push(offset);
    }
    // Blocks that stand side by side: the sum of what their members want, and how many they are.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (wanted, offset) in wanted.iter().zip(&offsets) {
        let mut block = (wanted - offset, 1);
        while let Some((sum, count)) = blocks.pop_if(|(sum, count)| *sum / *count as f64 > block.0 / block.1 as f64) {
            block = (block.0 + sum, block.1 + count);
        }
        blocks.push(block);
    }
    let starts = blocks.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    starts.zip(&offsets).map(|(start, offset)| start + offset).collect()
}
