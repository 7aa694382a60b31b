/* lessons.js - eight lessons: a state of the page, five sentences, and a question that a slider answers */
"use strict"

const lessons = []
function showLesson() {}
function drawAnswer() {}
