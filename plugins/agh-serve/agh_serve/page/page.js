<!doctype html><title>agh</title>
