#!/usr/bin/env node
// The path that containers and scripts may name; npm and the image use the other.
import './main.js'
