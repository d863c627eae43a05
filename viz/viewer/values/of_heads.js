// The defaults of a value of a cell: numbers of the heads on screen. A file of this folder says where
// its value differs; the panels ask the value, and none of them knows its name.

import { fixed } from '../drawing/numbers.js';
import { KINDS } from '../domain/payload.js';
import { sayParts } from '../locales/language.js';

/** @type {Omit<Value, 'name' | 'button' | 'meaning' | 'label' | 'gridOf'>} */
export const OF_HEADS = {
  formerNames: [], // in the links of earlier releases
  unit: () => '', // of its numbers; empty for a share, and for the network's own unit
  text: (number) => fixed(number), // how a number is said
  isSigned: false, // whether colours differ below and above 0; otherwise only what is above 0 has a colour
  isShare: false, // whether each row adds up to 1: then the other cells are scaled up while some are hidden, and a row has an entropy
  isOfHeads: true, // whether it is about heads; otherwise choosing a head shows the first value that is
  isSubtracted: false, // whether A minus B can be shown
  kinds: KINDS, // for which it exists
  request: null, // the name of the request that brings its numbers; null if the page has them
  doing: null, // what the status line says while its numbers are asked for
  decode: (answer) => answer, // the answer, as `state.values` keeps it
  canBeShown: ({ values }, { request }) => !request || Boolean(values[request]), // now; until then, weights are shown
  isChosen: () => true, // whether the person has chosen what it needs
  choose: null, // the changes of its button, where it is not simply shown; gets the state and a function that keeps the heads on screen
  linkOf: (_, { name }) => ({ value: name }), // the parameters of a link that opens it; null if a link cannot hold it
  title: null, // of the matrix, if the value is not about heads
  arcs: null, // what an arc of the strip joins, where the heads do not say it
  hint: () => '', // what to do now, if the person has to choose more
  factsOf: () => [], // sentences about the whole matrix; get the state and what is subtracted
  sayCell: null, // the sentence about a cell, if it is not the usual one: name, number, rank and row
  sayRow: (names) => sayParts('{row} reads most from {column} {value}', names),
  sayColumn: (names) => sayParts('{column} is read most by {row} {value}', names),
};
